// Package platform holds the presets of PlatformStacks inside the binary, so that
// `slipway stack apply --preset` needs no file. It is data: a directory for each
// preset, in which stack.yaml is the stack, sample.yaml what to deploy on it, and
// every other file, NAME.yaml, the values that differ on the flavor NAME.
package platform

import "embed"

// Files of each preset.
const (
	Stack  = "stack.yaml"
	Sample = "sample.yaml"
)

// Files holds a directory for each preset.
//
//go:embed xks
var Files embed.FS
