package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/version"
)

// Bounds of an HTTP exchange; the fetch as a whole has Options.Timeout.
const (
	maxRedirects  = 10
	headerTimeout = 30 * time.Second
)

// errAbsent means that the repository answers that something isn't there.
var errAbsent = errors.New("not there")

// origin is the host that a repository names, and the only one that is sent
// credentials.
type origin struct {
	repository string // as it stands in errors
	given      bool   // whether there are credentials
	url        *url.URL
	http       *http.Client
}

// transport makes the transport for one fetch. A CA counts beside the system's,
// because a redirect may lead to a public host.
func (c *Client) transport(repository string, credentials Credentials) (*http.Transport, error) {
	var transport *http.Transport
	if c.options.Transport != nil {
		transport = c.options.Transport.Clone()
	} else {
		transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	transport.ResponseHeaderTimeout = headerTimeout
	if len(credentials.CA) == 0 {
		return transport, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(credentials.CA) {
		return nil, &InvalidError{fmt.Sprintf("the CA for %s holds no certificate; put certificates as PEM into the object that repository.caSecretRef names", repository)}
	}
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	transport.TLSClientConfig.RootCAs = pool
	return transport, nil
}

// newOrigin gives a repository a client that sends what guards let through.
func newOrigin(at place, given bool, transport http.RoundTripper) *origin {
	return &origin{
		repository: at.String(),
		given:      given,
		url:        at.url,
		http:       &http.Client{Transport: transport, CheckRedirect: checkRedirect},
	}
}

// checkRedirect follows a redirect to any host but what only this machine's cloud
// serves, the metadata with its keys.
func checkRedirect(request *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("it redirects more than %d times", maxRedirects)
	}
	if address := net.ParseIP(request.URL.Hostname()); address != nil && address.IsLinkLocalUnicast() {
		return errors.New("it redirects to a link-local address")
	}
	return nil
}

// guard adds credentials to requests to one host, and refuses to go from TLS to
// plain HTTP. net/http alone would pass credentials on to subdomains.
type guard struct {
	inner       http.RoundTripper
	origin      *url.URL
	credentials Credentials
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if g.origin.Scheme == "https" && request.URL.Scheme != "https" {
		return nil, errors.New("it redirects from https to " + request.URL.Scheme)
	}
	value := g.authorization()
	if value != "" && request.URL.Scheme == g.origin.Scheme && strings.EqualFold(hostPort(request.URL), hostPort(g.origin)) {
		request = request.Clone(request.Context())
		request.Header.Set("Authorization", value)
	}
	return g.inner.RoundTrip(request)
}

func (g *guard) authorization() string {
	switch {
	case g.credentials.Token != "":
		return "Bearer " + g.credentials.Token
	case g.credentials.Username != "" || g.credentials.Password != "":
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(g.credentials.Username+":"+g.credentials.Password))
	default:
		return ""
	}
}

// hostPort is a URL's host with its port, written or not.
func hostPort(at *url.URL) string {
	port := at.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[at.Scheme]
	}
	return net.JoinHostPort(at.Hostname(), port)
}

// get returns the body at a URL, which may have up to limit bytes. What isn't there
// is errAbsent.
func (o *origin) get(ctx context.Context, what, at, accept string, limit int64) ([]byte, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, nil, &InvalidError{fmt.Sprintf("%s is at no URL that can be fetched; publish it again", what)}
	}
	request.Header.Set("User-Agent", "slipway/"+version.Version)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := o.http.Do(request)
	if err != nil {
		return nil, nil, o.unavailable(err)
	}
	defer response.Body.Close()
	if err := o.judge(what, response); err != nil {
		return nil, nil, err
	}
	if response.ContentLength > limit {
		return nil, nil, &TooLargeError{What: what, Limit: limit}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, nil, o.unavailable(err)
	}
	if int64(len(body)) > limit {
		return nil, nil, &TooLargeError{What: what, Limit: limit}
	}
	return body, response.Header, nil
}

// judge turns a status into an error.
func (o *origin) judge(what string, response *http.Response) error {
	code := response.StatusCode
	switch {
	case code == http.StatusOK:
		return nil
	case code == http.StatusNotFound || code == http.StatusGone:
		return errAbsent
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		if host := response.Request.URL.Host; !strings.EqualFold(hostPort(response.Request.URL), hostPort(o.url)) {
			return &InvalidError{fmt.Sprintf("%s is at %s, which asks for credentials; they are sent to the repository's own host only: publish the archive there", what, host)}
		}
		return &UnauthorizedError{Repository: o.repository, Given: o.given}
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return o.unavailable(answers(code))
	default:
		return &InvalidError{fmt.Sprintf("%s: %s for %s; check the repository's URL", o.repository, answers(code), what)}
	}
}

func answers(code int) error {
	return fmt.Errorf("it answers %d %s", code, http.StatusText(code))
}

func (o *origin) unavailable(err error) error {
	return &UnavailableError{Repository: o.repository, Err: plain(err)}
}

// plain strips an error of what has no place in a status: URLs, whose queries may
// be signed, local addresses and times, which differ each time.
func plain(err error) error {
	var certificate x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	var operation *net.OpError
	var lookup *net.DNSError
	var outer *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("it doesn't answer in time")
	case errors.As(err, &authority):
		return errors.New("its certificate is signed by an unknown authority (name the Secret of its CA in repository.caSecretRef)")
	case errors.As(err, &certificate) && certificate.Reason == x509.Expired:
		return errors.New("its certificate has expired or is not yet valid")
	case errors.As(err, &lookup):
		return fmt.Errorf("the name %s can't be resolved", lookup.Name)
	case errors.As(err, &operation):
		return operation.Err
	case errors.As(err, &outer):
		return plain(outer.Err)
	default:
		return err
	}
}

// indexSource is a repository with an index.yaml.
type indexSource struct {
	*origin
	client    *Client
	ca        []byte
	limits    Limits
	transport *http.Transport
}

func (c *Client) openIndex(at place, credentials Credentials) (source, error) {
	transport, err := c.transport(at.String(), credentials)
	if err != nil {
		return nil, err
	}
	guarded := &guard{inner: transport, origin: at.url, credentials: credentials}
	return &indexSource{
		origin:    newOrigin(at, guarded.authorization() != "", guarded),
		client:    c,
		ca:        credentials.CA,
		limits:    c.options.Limits,
		transport: transport,
	}, nil
}

func (s *indexSource) close() { s.transport.CloseIdleConnections() }

func (s *indexSource) find(ctx context.Context, name string, version wanted) (published, error) {
	what := "the index of " + s.repository
	at := s.url.JoinPath("index.yaml")
	data, _, err := s.get(ctx, what, at.String(), "", s.limits.Index)
	if errors.Is(err, errAbsent) {
		return published{}, &InvalidError{fmt.Sprintf("%s has no index.yaml, so it is no chart repository; check the repository's URL", s.repository)}
	}
	if err != nil {
		return published{}, err
	}
	entries, err := parseIndex(what, data, name)
	if err != nil {
		return published{}, err
	}
	entry, err := chooseEntry(s.repository, name, version, entries)
	if err != nil {
		return published{}, err
	}
	target, err := at.Parse(entry.URLs[0])
	if err != nil || target.Scheme != "http" && target.Scheme != "https" && target.Scheme != "oci" {
		return published{}, &InvalidError{fmt.Sprintf("%s has chart %s %s at no URL of http, https or oci; the repository's owner must mend its index", s.repository, name, entry.Version)}
	}
	return published{name: name, version: entry.Version, digest: promised(entry.Digest), location: target.String()}, nil
}

func (s *indexSource) fetch(ctx context.Context, chart published) ([]byte, error) {
	if strings.HasPrefix(chart.location, "oci://") {
		return s.client.fetchTagged(ctx, chart.location, s.ca)
	}
	what := fmt.Sprintf("chart %s %s of %s", chart.name, chart.version, s.repository)
	data, _, err := s.get(ctx, what, chart.location, "", s.limits.Archive)
	if errors.Is(err, errAbsent) {
		return nil, &InvalidError{fmt.Sprintf("%s is in the index, but its archive is not there; choose another version, or have the repository mended", what)}
	}
	return data, err
}

// chooseEntry returns the newest wanted entry.
func chooseEntry(repository, name string, version wanted, entries []indexEntry) (indexEntry, error) {
	versions := []string{}
	for _, entry := range entries {
		versions = append(versions, entry.Version)
	}
	chosen, err := version.choose(repository, name, versions)
	if err != nil {
		return indexEntry{}, err
	}
	return entries[chosen], nil
}

// promised is an index's digest in this package's form; some indexes leave out the
// algorithm. What is no such digest promises nothing.
func promised(digest string) string {
	digest = "sha256:" + strings.TrimPrefix(strings.ToLower(digest), "sha256:")
	if !digestForm.MatchString(digest) {
		return ""
	}
	return digest
}
