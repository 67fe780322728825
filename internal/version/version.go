// Package version names this build and the images that belong to it. Every
// image and version that Slipway knows by itself stands here and nowhere else.
package version

import "runtime"

// Version is the release, set by the linker
// (-X github.com/slipway-dev/slipway/internal/version.Version=v1.2.3).
var Version = "v0.1.0"

// Repository is where releases of the operator's image are published. One image
// holds every server role.
const Repository = "ghcr.io/slipway-dev/slipway"

// Image is the operator's image of this release.
func Image() string { return Repository + ":" + Version }

// String is what `slipway version` prints.
func String() string {
	return "slipway " + Version + " (" + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + ")"
}
