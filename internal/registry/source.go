package registry

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// source is one repository, open for one fetch.
type source interface {
	// find looks up the newest published version that is wanted.
	find(ctx context.Context, name string, version wanted) (published, error)
	// fetch returns a published archive, not yet checked.
	fetch(ctx context.Context, chart published) ([]byte, error)
	// close lets go of connections.
	close()
}

// published is a version of a chart that a repository has.
type published struct {
	name    string
	version string
	// digest is what the repository promises; empty if it doesn't.
	digest string
	// location is a URL or a path, without credentials.
	location string
}

// place is where a repository is.
type place struct {
	// url is of an HTTP or OCI repository; nil for a directory.
	url *url.URL
	dir string
}

// String is the place without anything secret.
func (p place) String() string {
	if p.url == nil {
		return p.dir
	}
	return strings.TrimSuffix(p.url.String(), "/")
}

func (p place) isOCI() bool { return p.url != nil && strings.HasPrefix(p.url.Scheme, "oci") }

// chartName is what may name a chart: a file, a YAML key and part of a URL.
var chartName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,249}$`)

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// locate reads a repository as someone wrote it. The error never repeats a user
// name, a password or a query.
func locate(repository string) (place, error) {
	const forms = "write https://…, http://…, oci://…, file:///… or a path that begins with /"
	if strings.HasPrefix(repository, "/") {
		return place{dir: filepath.Clean(repository)}, nil
	}
	parsed, err := url.Parse(repository)
	if err != nil || parsed.Opaque != "" {
		return place{}, &InvalidError{"the repository is no URL; " + forms}
	}
	if parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return place{}, &InvalidError{fmt.Sprintf("the repository at %s may have no user, query or fragment in its URL; put credentials into a Secret and name it in repository.secretRef", parsed.Host)}
	}
	switch parsed.Scheme {
	case "file":
		if !filepath.IsAbs(parsed.Path) || parsed.Host != "" {
			return place{}, &InvalidError{"a repository file:// needs an absolute path, as in file:///charts"}
		}
		return place{dir: filepath.Clean(parsed.Path)}, nil
	case "http", "https", "oci", "oci+http":
		if parsed.Host == "" {
			return place{}, &InvalidError{fmt.Sprintf("the repository %s names no host; %s", parsed, forms)}
		}
		return place{url: parsed}, nil
	default:
		return place{}, &InvalidError{fmt.Sprintf("the repository's scheme %q isn't known; %s", parsed.Scheme, forms)}
	}
}
