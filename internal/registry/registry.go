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
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"
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

// Defaults of Options.
const (
	defaultInterval = 10 * time.Minute
	defaultTimeout  = 2 * time.Minute
	// A repository that is down is asked again after this part of the interval.
	retryPart = 10
)

// Client fetches charts. It is safe for concurrent use; concurrent calls for the
// same chart share one download.
type Client struct {
	options Options
	cache   *cache
	flights singleflight.Group
}

// New makes a client. It touches nothing until the first call.
func New(options Options) *Client {
	options.Limits = options.Limits.orDefault()
	options.Interval = orDefault(options.Interval, defaultInterval)
	options.Timeout = orDefault(options.Timeout, defaultTimeout)
	return &Client{options: options, cache: newCache(options)}
}

// request is a Chart that has been understood.
type request struct {
	Chart
	at      place
	version wanted
}

// Chart returns a chart's archive. An exact version that is in the cache needs no
// request. A constraint is looked up once in Options.Interval; while its
// repository is down, the last answer stands (Archive.Stale). A directory is read
// each time. The archive's Data is shared and must not be changed.
//
// Errors: *InvalidError, *NotFoundError, *UnauthorizedError, *DigestError,
// *TooLargeError, *HostileError, *UnavailableError. Of these only the last is
// worth a retry without a change by someone.
func (c *Client) Chart(ctx context.Context, chart Chart, credentials Credentials) (Archive, error) {
	asked, err := understand(chart)
	if err != nil {
		return Archive{}, err
	}
	if c.options.Vendored != "" {
		archive, err := c.vendored(ctx, asked)
		var missing *NotFoundError
		if !errors.As(err, &missing) {
			return archive, err
		}
	}
	if asked.at.url == nil {
		return c.fromDirectory(ctx, asked, asked.at.dir, "")
	}
	if archive, found := c.cached(asked); found {
		return archive, nil
	}
	archive, err := c.share(ctx, asked, credentials)
	var unavailable *UnavailableError
	if c.options.Vendored != "" && errors.As(err, &unavailable) {
		return Archive{}, &UnavailableError{Repository: unavailable.Repository, Vendored: c.options.Vendored, Err: unavailable.Err}
	}
	return archive, err
}

func understand(chart Chart) (request, error) {
	at, err := locate(chart.Repository)
	if err != nil {
		return request{}, err
	}
	if !chartName.MatchString(chart.Name) {
		return request{}, &InvalidError{fmt.Sprintf("%q is no name of a chart; write the name alone, such as llm-d-infra", chart.Name)}
	}
	if chart.Digest != "" && !digestForm.MatchString(chart.Digest) {
		return request{}, &InvalidError{fmt.Sprintf("digest %q is none; write sha256: and 64 hexadecimal digits in lower case", chart.Digest)}
	}
	version, err := parseVersion(chart.Version)
	chart.Version = version.text
	return request{Chart: chart, at: at, version: version}, err
}

// vendored takes a chart from the vendored directory. A chart that isn't in it is a
// *NotFoundError.
func (c *Client) vendored(ctx context.Context, asked request) (Archive, error) {
	return c.fromDirectory(ctx, asked, c.options.Vendored, asked.at.String())
}

// fromDirectory takes a chart from a directory, of what was fetched from the
// repository of, if that isn't empty. It isn't cached: it is as near as a cache
// would be, and may change.
func (c *Client) fromDirectory(ctx context.Context, asked request, dir, of string) (Archive, error) {
	from, err := openDirectory(dir, of, c.options.Limits)
	if err != nil {
		return Archive{}, err
	}
	defer from.close()
	found, err := from.find(ctx, asked.Name, asked.version)
	if err != nil {
		return Archive{}, err
	}
	return c.take(ctx, from, asked, found)
}

// cached is what needs no request: an exact version that is kept, or a constraint that
// was resolved lately.
func (c *Client) cached(asked request) (Archive, bool) {
	repository, version := asked.at.String(), asked.Version
	archive := Archive{}
	found := false
	if asked.version.exact != nil {
		archive, found = c.cache.chart(repository, asked.Name, version)
	} else if last, known := read[resolution](c.cache, resolutionKey(repository, asked.Name, asked.version.text)); known {
		pause := c.options.Interval
		if last.Fault != "" {
			pause /= retryPart
		}
		if age := c.options.Now().Sub(last.Tried); age < 0 || age >= pause {
			return Archive{}, false
		}
		archive, found = c.cache.chart(repository, asked.Name, last.Version)
		if last.Fault != "" {
			archive.Stale = errors.New(last.Fault)
		}
	}
	return archive, found && (asked.Digest == "" || asked.Digest == archive.Digest)
}

// share fetches a chart once for all who ask for it at the same time with the same
// credentials. A caller that gives up doesn't end it for the others.
func (c *Client) share(ctx context.Context, asked request, credentials Credentials) (Archive, error) {
	key := keyOf("flight", asked.at.String(), asked.Name, asked.version.text, asked.Digest,
		credentials.Username, credentials.Password, credentials.Token, string(credentials.CA))
	done := c.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.Timeout)
		defer cancel()
		// Another flight may have landed between the look at the cache and this one.
		if archive, found := c.cached(asked); found {
			return archive, nil
		}
		return c.fetch(ctx, asked, credentials)
	})
	select {
	case <-ctx.Done():
		return Archive{}, &UnavailableError{Repository: asked.at.String(), Err: plain(context.Cause(ctx))}
	case result := <-done:
		if result.Err != nil {
			return Archive{}, result.Err
		}
		return result.Val.(Archive), nil
	}
}

// fetch asks the repository, and remembers its answer. When it doesn't answer, its
// last answer stands.
func (c *Client) fetch(ctx context.Context, asked request, credentials Credentials) (Archive, error) {
	repository, now := asked.at.String(), c.options.Now()
	archive, err := c.ask(ctx, asked, credentials)
	if asked.version.exact != nil {
		return archive, err
	}
	key := resolutionKey(repository, asked.Name, asked.version.text)
	if err == nil {
		write(c.cache, key, resolution{Version: archive.Version, At: now, Tried: now})
		return archive, nil
	}
	last, known := read[resolution](c.cache, key)
	if !known || !passing(err) {
		return Archive{}, err
	}
	kept, found := c.cache.chart(repository, asked.Name, last.Version)
	if !found || asked.Digest != "" && asked.Digest != kept.Digest {
		return Archive{}, err
	}
	last.Tried, last.Fault = now, err.Error()
	write(c.cache, key, last)
	kept.Stale = err
	return kept, nil
}

// passing says whether an error says nothing about the chart: the repository is down,
// or doesn't let us in any more.
func passing(err error) bool {
	var unavailable *UnavailableError
	var unauthorized *UnauthorizedError
	return errors.As(err, &unavailable) || errors.As(err, &unauthorized)
}

// ask finds a chart in its repository and downloads it, unless the version that it
// finds is kept already.
func (c *Client) ask(ctx context.Context, asked request, credentials Credentials) (Archive, error) {
	from, err := c.open(ctx, asked, credentials)
	if err != nil {
		return Archive{}, err
	}
	defer from.close()
	found, err := from.find(ctx, asked.Name, asked.version)
	if err != nil {
		return Archive{}, err
	}
	repository := asked.at.String()
	kept, is := c.cache.chart(repository, asked.Name, found.version)
	if is && (found.digest == "" || found.digest == kept.Digest) && (asked.Digest == "" || asked.Digest == kept.Digest) {
		return kept, nil
	}
	archive, err := c.take(ctx, from, asked, found)
	if err != nil {
		return Archive{}, err
	}
	c.cache.keep(repository, archive)
	return archive, nil
}

func (c *Client) open(ctx context.Context, asked request, credentials Credentials) (source, error) {
	if asked.at.isOCI() {
		return c.openOCI(ctx, asked.at, asked.Name, credentials)
	}
	return c.openIndex(asked.at, credentials)
}

// take fetches a published chart and checks that it is what it should be, and does no
// harm.
func (c *Client) take(ctx context.Context, from source, asked request, found published) (Archive, error) {
	data, err := from.fetch(ctx, found)
	if err != nil {
		return Archive{}, err
	}
	digest := Digest(data)
	if found.digest != "" && found.digest != digest {
		return Archive{}, &DigestError{Name: found.name, Version: found.version, Want: found.digest, Got: digest, Promised: true}
	}
	if asked.Digest != "" && asked.Digest != digest {
		return Archive{}, &DigestError{Name: found.name, Version: found.version, Want: asked.Digest, Got: digest}
	}
	what := fmt.Sprintf("chart %s %s of %s", found.name, found.version, asked.at)
	chart, err := inspect(what, data, c.options.Limits)
	if err != nil {
		return Archive{}, err
	}
	if chart.Name != found.name || !sameVersion(chart.Version, found.version) {
		return Archive{}, &InvalidError{fmt.Sprintf("%s says of itself that it is %s %s; its owner must publish it anew", what, chart.Name, chart.Version)}
	}
	return Archive{Name: chart.Name, Version: chart.Version, Digest: digest, Source: found.location, Data: data}, nil
}
