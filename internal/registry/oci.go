package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Media types (OCI image specification; Helm's HIP-0006). Manifests of Docker's
// form are what older tools push.
const (
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	ociIndex       = "application/vnd.oci.image.index.v1+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	chartLayer     = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Bounds of the registry's own documents.
const (
	maxManifest = 4 << 20 // the bound that the distribution specification suggests
	maxTagPages = 100     // of a thousand tags each
)

// tagForm and repositoryForm are the distribution specification's.
var (
	tagForm        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	repositoryForm = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
)

// Descriptor names a blob or a manifest in an OCI registry.
type Descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
	Platform    *struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	} `json:"platform"`
}

// Manifest is an image's manifest, or an index of several.
type Manifest struct {
	MediaType   string            `json:"mediaType"`
	Config      Descriptor        `json:"config"`
	Layers      []Descriptor      `json:"layers"`
	Manifests   []Descriptor      `json:"manifests"`
	Annotations map[string]string `json:"annotations"`
	// Digest of the manifest itself: sha256:… in hexadecimal.
	Digest string `json:"-"`
}

// Repository is a repository of an OCI registry, open for reading. Everything that
// it reads is bounded and, where a digest names it, checked. Close it when done.
type Repository struct {
	*origin
	path      string
	limits    Limits
	transport *http.Transport
}

// OpenRepository opens registry/path, given as an oci:// or oci+http:// URL. It asks
// the registry how it wants to be authenticated to, and asks for a token to pull.
func (c *Client) OpenRepository(ctx context.Context, repository string, credentials Credentials) (*Repository, error) {
	at, err := locate(repository)
	if err != nil {
		return nil, err
	}
	path := ""
	if at.isOCI() {
		path = strings.Trim(at.url.EscapedPath(), "/")
	}
	if !repositoryForm.MatchString(path) {
		return nil, &InvalidError{fmt.Sprintf("%s is no repository of an OCI registry; write oci://registry/path in lower case", at)}
	}
	options := []name.Option{name.StrictValidation}
	if at.url.Scheme == "oci+http" {
		options = append(options, name.Insecure)
	}
	target, err := name.NewRepository(at.url.Host+"/"+path, options...)
	if err != nil {
		return nil, &InvalidError{fmt.Sprintf("%s is no repository of an OCI registry; write oci://registry/path", at)}
	}
	plainTransport, err := c.transport(at.String(), credentials)
	if err != nil {
		return nil, err
	}
	opened := &Repository{path: path, limits: c.options.Limits, transport: plainTransport}
	base := &url.URL{Scheme: scheme(at), Host: at.url.Host}
	guarded := &guard{inner: plainTransport, origin: base}
	opened.origin = newOrigin(at, authenticator(credentials) != authn.Anonymous, guarded)
	opened.url = base
	authorized, err := transport.NewWithContext(ctx, target.Registry, authenticator(credentials), guarded, []string{target.Scope(transport.PullScope)})
	if err != nil {
		plainTransport.CloseIdleConnections()
		return nil, opened.explain(err)
	}
	opened.http.Transport = authorized
	return opened, nil
}

// scheme is how a registry is spoken to: with TLS, unless the URL says otherwise or
// it is on the loopback interface, where either may answer.
func scheme(at place) string {
	host := at.url.Hostname()
	if at.url.Scheme == "oci+http" || host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1" {
		return "http"
	}
	return "https"
}

func authenticator(credentials Credentials) authn.Authenticator {
	switch {
	case credentials.Token != "":
		return authn.FromConfig(authn.AuthConfig{RegistryToken: credentials.Token})
	case credentials.Username != "" || credentials.Password != "":
		return &authn.Basic{Username: credentials.Username, Password: credentials.Password}
	default:
		return authn.Anonymous
	}
}

// explain turns an error of the authentication into one of this package.
func (r *Repository) explain(err error) error {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return r.unavailable(err)
	}
	if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
		return &UnauthorizedError{Repository: r.repository, Given: r.given}
	}
	return r.unavailable(answers(answer.StatusCode))
}

// Close lets go of connections.
func (r *Repository) Close() { r.transport.CloseIdleConnections() }

// read gets part of the repository.
func (r *Repository) read(ctx context.Context, what, kind, reference, accept string, limit int64) ([]byte, http.Header, error) {
	at := r.url.JoinPath("v2", r.path, kind, reference)
	if kind == "tags" {
		at = r.url.JoinPath("v2", r.path, "tags", "list")
		at.RawQuery = reference
	}
	body, header, err := r.get(ctx, what, at.String(), accept, limit)
	var answer *transport.Error
	if errors.As(err, &answer) { // A token was refused on the way.
		return nil, nil, r.explain(answer)
	}
	return body, header, err
}

// Manifest reads the manifest that a tag or a digest names. What isn't there is a
// *NotFoundError.
func (r *Repository) Manifest(ctx context.Context, reference string) (Manifest, error) {
	isDigest := digestForm.MatchString(reference)
	if !isDigest && !tagForm.MatchString(reference) {
		return Manifest{}, &InvalidError{fmt.Sprintf("%q is neither a tag nor a digest of sha256", reference)}
	}
	what := fmt.Sprintf("the manifest %s of %s", reference, r.repository)
	accept := strings.Join([]string{ociManifest, dockerManifest, ociIndex, dockerList}, ", ")
	body, _, err := r.read(ctx, what, "manifests", reference, accept, maxManifest)
	if errors.Is(err, errAbsent) {
		return Manifest{}, &NotFoundError{Repository: r.repository, Name: r.path, Version: reference}
	}
	if err != nil {
		return Manifest{}, err
	}
	manifest := Manifest{Digest: Digest(body)}
	if isDigest && manifest.Digest != reference {
		return Manifest{}, &DigestError{Name: r.repository, Want: reference, Got: manifest.Digest, Promised: true}
	}
	if err := json.Unmarshal(body, &manifest); err != nil {
		return Manifest{}, &InvalidError{what + " is no JSON; push it again"}
	}
	return manifest, nil
}

// Blob reads a blob, of up to limit bytes, and checks its digest.
func (r *Repository) Blob(ctx context.Context, blob Descriptor, limit int64) ([]byte, error) {
	what := fmt.Sprintf("the blob %s of %s", blob.Digest, r.repository)
	if !digestForm.MatchString(blob.Digest) {
		return nil, &InvalidError{fmt.Sprintf("%s has a blob %q, whose digest is none of sha256; push it again", r.repository, blob.Digest)}
	}
	if blob.Size > limit {
		return nil, &TooLargeError{What: what, Limit: limit}
	}
	body, _, err := r.read(ctx, what, "blobs", blob.Digest, "", limit)
	if errors.Is(err, errAbsent) {
		return nil, &InvalidError{what + " is not there, though its manifest is; push it again"}
	}
	if err != nil {
		return nil, err
	}
	if got := Digest(body); got != blob.Digest {
		return nil, &DigestError{Name: r.repository, Want: blob.Digest, Got: got, Promised: true}
	}
	return body, nil
}

// Tags lists the repository's tags, at most 100,000; none if the repository isn't
// there.
func (r *Repository) Tags(ctx context.Context) ([]string, error) {
	what := "the list of tags of " + r.repository
	tags, query, left := []string{}, "n=1000", r.limits.Index
	for range maxTagPages {
		body, header, err := r.read(ctx, what, "tags", query, "", left)
		if errors.Is(err, errAbsent) {
			return tags, nil
		}
		if err != nil {
			return nil, err
		}
		left -= int64(len(body))
		var page struct {
			Tags []string `json:"tags"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, &InvalidError{what + " is no JSON; check the repository's URL"}
		}
		tags = append(tags, page.Tags...)
		next := nextPage(header.Get("Link"))
		if next == "" {
			return tags, nil
		}
		query = next
	}
	return tags, nil
}

// nextPage is the query of the page that a Link header (RFC 8288) names; empty if
// there is none. Only its query counts, so that it can't lead to another host.
func nextPage(link string) string {
	target, _, found := strings.Cut(strings.TrimPrefix(link, "<"), ">")
	if !found {
		return ""
	}
	parsed, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return parsed.RawQuery
}

// ociSource is a chart in an OCI registry.
type ociSource struct {
	*Repository
	layer Descriptor
}

func (c *Client) openOCI(ctx context.Context, at place, chart string, credentials Credentials) (source, error) {
	repository, err := c.OpenRepository(ctx, at.String()+"/"+chart, credentials)
	if err != nil {
		return nil, err
	}
	return &ociSource{Repository: repository}, nil
}

func (s *ociSource) close() { s.Close() }

// find needs no list of tags for an exact version, which some registries don't give
// to those who may only pull.
func (s *ociSource) find(ctx context.Context, chart string, version wanted) (published, error) {
	if version.exact != nil {
		bare := tagOf(version.exact.String())
		tags := []string{bare, "v" + bare}
		if strings.HasPrefix(version.text, "v") {
			tags = []string{"v" + bare, bare}
		}
		for _, tag := range tags {
			found, err := s.resolve(ctx, chart, tag)
			var missing *NotFoundError
			if !errors.As(err, &missing) {
				return found, err
			}
		}
	}
	tags, err := s.Tags(ctx)
	if err != nil {
		return published{}, err
	}
	versions := []string{}
	for _, tag := range tags {
		// A tag such as 1.3, which moves from version to version, is none itself.
		if _, err := semver.StrictNewVersion(strings.TrimPrefix(versionOf(tag), "v")); err == nil {
			versions = append(versions, versionOf(tag))
		}
	}
	chosen, err := version.choose(s.repository, chart, versions)
	if err != nil {
		return published{}, err
	}
	return s.resolve(ctx, chart, tagOf(versions[chosen]))
}

// tagOf is the tag of a version: Helm writes + as _, because a tag can't have one.
func tagOf(version string) string { return strings.ReplaceAll(version, "+", "_") }

func versionOf(tag string) string { return strings.ReplaceAll(tag, "_", "+") }

// resolve reads the manifest of a chart and remembers its layer.
func (s *ociSource) resolve(ctx context.Context, chart, tag string) (published, error) {
	layer, err := s.chartLayer(ctx, tag)
	if err != nil {
		return published{}, err
	}
	s.layer = layer
	return published{name: chart, version: versionOf(tag), digest: promised(layer.Digest), location: s.repository + ":" + tag}, nil
}

// chartLayer is the layer of a manifest that is a chart's archive.
func (r *Repository) chartLayer(ctx context.Context, reference string) (Descriptor, error) {
	manifest, err := r.Manifest(ctx, reference)
	if err != nil {
		return Descriptor{}, err
	}
	for _, layer := range manifest.Layers {
		if layer.MediaType == chartLayer {
			return layer, nil
		}
	}
	return Descriptor{}, &InvalidError{fmt.Sprintf("%s:%s is an image and no Helm chart; check the repository and the chart's name", r.repository, reference)}
}

func (s *ociSource) fetch(ctx context.Context, _ published) ([]byte, error) {
	return s.Blob(ctx, s.layer, s.limits.Archive)
}

// fetchTagged reads the chart at oci://registry/path:tag, as some indexes have it.
// That registry isn't the repository, so that it gets no credentials.
func (c *Client) fetchTagged(ctx context.Context, location string, ca []byte) ([]byte, error) {
	at := strings.LastIndex(location, ":")
	if at < strings.LastIndex(location, "/") {
		return nil, &InvalidError{fmt.Sprintf("the index has a chart at %s, without a tag; its owner must mend it", location)}
	}
	opened, err := c.OpenRepository(ctx, location[:at], Credentials{CA: ca})
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	layer, err := opened.chartLayer(ctx, location[at+1:])
	if err != nil {
		return nil, err
	}
	return opened.Blob(ctx, layer, c.options.Limits.Archive)
}
