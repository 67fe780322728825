package registry

import (
	"fmt"
	"strings"
)

// InvalidError means that a chart is asked for in words that mean nothing, or
// that a repository answers with what is no repository. Someone must change it.
type InvalidError struct {
	What string // what is wrong, and the way out
}

func (e *InvalidError) Error() string { return e.What }

// NotFoundError means that the repository answers and has no such chart, or no
// such version of it.
type NotFoundError struct {
	Repository, Name, Version string
	// Versions that are there, newest first; empty if the chart isn't there at all.
	Versions []string
}

// mostVersions is how many versions an error names.
const mostVersions = 8

func (e *NotFoundError) Error() string {
	if len(e.Versions) == 0 {
		return fmt.Sprintf("%s has no chart %s; check the chart's name and the repository's URL", e.Repository, e.Name)
	}
	there := strings.Join(e.Versions[:min(len(e.Versions), mostVersions)], ", ")
	if more := len(e.Versions) - mostVersions; more > 0 {
		there += fmt.Sprintf(" and %d older ones", more)
	}
	if e.Version == "" {
		return fmt.Sprintf("%s has no release of chart %s, only prereleases: name one of %s", e.Repository, e.Name, there)
	}
	return fmt.Sprintf("%s has no version %s of chart %s; it has %s", e.Repository, e.Version, e.Name, there)
}

// UnauthorizedError means that the repository doesn't let us in.
type UnauthorizedError struct {
	Repository string
	// Given says whether there were credentials.
	Given bool
}

func (e *UnauthorizedError) Error() string {
	if e.Given {
		return fmt.Sprintf("%s refuses the credentials; correct the Secret that repository.secretRef names", e.Repository)
	}
	return fmt.Sprintf("%s asks for credentials; put username and password, or token, into a Secret and name it in repository.secretRef", e.Repository)
}

// DigestError means that an archive isn't the one that was asked for, or not the
// one that the repository's index promises.
type DigestError struct {
	Name, Version string
	Want, Got     string
	// Promised is set where the index, not the caller, says Want.
	Promised bool
}

func (e *DigestError) Error() string {
	if e.Promised {
		return fmt.Sprintf("chart %s %s has digest %s, but its index promises %s: the repository is damaged or was tampered with; don't use it until its owner has mended it",
			e.Name, e.Version, e.Got, e.Want)
	}
	return fmt.Sprintf("chart %s %s has digest %s, not %s as asked for; correct the digest if the archive is the one that you mean", e.Name, e.Version, e.Got, e.Want)
}

// TooLargeError means that something is beyond a limit.
type TooLargeError struct {
	What  string // such as "the index of https://charts.example.com"
	Limit int64  // in bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is larger than the %s allowed", e.What, size(e.Limit))
}

// HostileError means that an archive would do harm if it were unpacked: a path
// that leads out of it, a link, a device, a decompression bomb.
type HostileError struct {
	Archive string // what the archive is
	Why     string
}

func (e *HostileError) Error() string {
	return fmt.Sprintf("%s is refused: %s; use an archive made by helm package", e.Archive, e.Why)
}

// UnavailableError means that the repository doesn't answer, or answers with a
// fault of its own. It may go by itself.
type UnavailableError struct {
	Repository string
	// Vendored is the directory of vendored charts that doesn't hold the chart either;
	// empty if there is none.
	Vendored string
	Err      error
}

func (e *UnavailableError) Error() string {
	if e.Vendored != "" {
		return fmt.Sprintf("%s is not available: %v; without it, the chart must be in %s (slipway charts vendor puts it there)", e.Repository, e.Err, e.Vendored)
	}
	return fmt.Sprintf("%s is not available: %v; it is tried again", e.Repository, e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// size writes a size as a person would.
func size(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
