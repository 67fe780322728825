package bundle

import (
	"errors"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/slipway-dev/slipway/internal/registry"
)

// reference is an image in a registry.
type reference struct {
	scheme string // oci:// or oci+http://
	host   string
	path   string
	// tag and digest, of which either may be empty; version is what is asked for.
	tag, digest, version string
}

// parseReference reads what podman pull takes, but the registry must be named.
func parseReference(text string) (reference, error) {
	at := reference{scheme: "oci://"}
	rest := strings.TrimPrefix(text, at.scheme)
	if plain, is := strings.CutPrefix(rest, "oci+http://"); is {
		at.scheme, rest = "oci+http://", plain
	}
	if before, _, found := strings.Cut(rest, "/"); strings.Contains(before, "@") && found {
		return at, fault("the bundle", "its reference may hold no user name or password; log in with podman login, or give --auth-file")
	}
	rest, digest, pinned := strings.Cut(rest, "@")
	if pinned && !digestForm.MatchString(digest) {
		return at, fault(text, "the digest is none; write @sha256: and 64 hexadecimal digits in lower case")
	}
	parsed, err := name.NewTag(rest)
	host, _, hasPath := strings.Cut(rest, "/")
	if err != nil || !hasPath || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return at, fault(text, "it is neither there as a file nor the name of an image; write registry/path:tag, registry/path@sha256:…, a directory or a .tar")
	}
	at.host, at.path, at.digest = parsed.RegistryStr(), parsed.RepositoryStr(), digest
	if _, after, tagged := strings.Cut(rest[strings.LastIndex(rest, "/")+1:], ":"); tagged {
		at.tag = after
	}
	at.version = digest
	if !pinned {
		at.version = parsed.TagStr()
	}
	return at, nil
}

// String is the image as podman pull takes it.
func (r reference) String() string {
	text := r.host + "/" + r.path
	if r.tag != "" {
		text += ":" + r.tag
	}
	if r.digest != "" {
		text += "@" + r.digest
	}
	return text
}

// explain puts an error of the registry into words about bundles. nil stays nil.
func (r reference) explain(err error) error {
	var unauthorized *registry.UnauthorizedError
	var missing *registry.NotFoundError
	var digest *registry.DigestError
	var unavailable *registry.UnavailableError
	told := &Error{Source: r.String(), err: err}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unauthorized) && unauthorized.Given:
		told.Why = "the registry refuses the credentials; log in again with podman login " + r.host + ", or give another --auth-file"
	case errors.As(err, &unauthorized):
		told.Why = "the registry asks for credentials, or has no such image; log in with podman login " + r.host + ", or give --auth-file"
	case errors.As(err, &missing) && r.digest != "":
		told.Why = "the registry has no such image; check its path and its digest"
	case errors.As(err, &missing):
		told.Why = "the registry has no such image; check its path and its tag"
	case errors.As(err, &digest):
		told.Why = "what the registry has there has digest " + digest.Got + ", not " + digest.Want + ": it is damaged or was tampered with; don't use it"
	case errors.As(err, &unavailable):
		told.Why = "the registry is not available: " + unavailable.Err.Error()
	default:
		told.Why = err.Error()
	}
	return told
}
