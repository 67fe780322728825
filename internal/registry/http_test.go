package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

var quiet = log.New(io.Discard, "", 0)

func TestIndexOverTLSWithBasicAuth(t *testing.T) {
	site := newSite(t, true)
	site.user, site.password = "me", "hunter2"
	site.publish(t, "infra", "v1.3.3", "1.4.0", "2.0.0-rc.1")
	good := Credentials{Username: "me", Password: "hunter2", CA: site.ca()}
	chart := Chart{Repository: site.repository(), Name: "infra", Version: "1.3.3"}
	client := newClient(Options{})

	archive, err := client.Chart(t.Context(), chart, good)
	wantChart(t, archive, err, "infra", "v1.3.3")
	for asked, want := range map[string]string{"~1.3": "v1.3.3", "": "1.4.0", ">=2.0.0-0": "2.0.0-rc.1"} {
		chart.Version = asked
		archive, err := client.Chart(t.Context(), chart, good)
		wantChart(t, archive, err, "infra", want)
	}
	chart.Version = "1.4.1"
	_, err = client.Chart(t.Context(), chart, good)
	wantError[*NotFoundError](t, err, "has no version 1.4.1 of chart infra; it has 2.0.0-rc.1, 1.4.0, v1.3.3")
	chart.Name = "nothing"
	_, err = client.Chart(t.Context(), chart, good)
	wantError[*NotFoundError](t, err, "has no chart nothing")

	for name, test := range map[string]struct {
		credentials Credentials
		words       string
	}{
		"none":  {Credentials{CA: good.CA}, "asks for credentials; put username and password, or token, into a Secret"},
		"wrong": {Credentials{Username: "me", Password: "hunter3", CA: good.CA}, "refuses the credentials; correct the Secret"},
		"token": {Credentials{Token: "hunter2", CA: good.CA}, "refuses the credentials"},
	} {
		_, err := newClient(Options{}).Chart(t.Context(), chart, test.credentials)
		wantError[*UnauthorizedError](t, err, test.words)
		if strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %q tells a secret", name, err)
		}
	}
	_, err = newClient(Options{}).Chart(t.Context(), chart, Credentials{Username: "me", Password: "hunter2"})
	wantError[*UnavailableError](t, err, "signed by an unknown authority", "repository.caSecretRef")
	_, err = newClient(Options{}).Chart(t.Context(), chart, Credentials{CA: []byte("nonsense")})
	wantError[*InvalidError](t, err, "holds no certificate")
}

func TestTokenOpensAnIndex(t *testing.T) {
	site := newSite(t, false)
	site.publish(t, "infra", "1.0.0")
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sesame" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		site.ServeHTTP(w, r)
	}))
	defer gate.Close()
	chart := Chart{Repository: gate.URL + "/charts", Name: "infra"}
	archive, err := newClient(Options{}).Chart(t.Context(), chart, Credentials{Token: "sesame"})
	wantChart(t, archive, err, "infra", "1.0.0")
	_, err = newClient(Options{}).Chart(t.Context(), chart, Credentials{})
	wantError[*UnauthorizedError](t, err, "asks for credentials")
}

// Credentials go to the repository's own host, by whatever way a request gets
// elsewhere.
func TestCredentialsStayAtHome(t *testing.T) {
	abroad := newSite(t, false)
	abroad.publish(t, "infra", "1.0.0", "2.0.0", "3.0.0")
	home := newSite(t, false)
	home.user, home.password = "me", "hunter2"
	index := "entries:\n  infra:\n"
	for _, version := range []string{"1.0.0", "2.0.0", "3.0.0"} {
		index += "  - {name: infra, version: " + version + ", urls: [" + map[string]string{
			"1.0.0": "redirected.tgz",
			"2.0.0": abroad.URL + "/charts/infra-2.0.0.tgz",
			"3.0.0": abroad.URL + "/closed",
		}[version] + "]}\n"
	}
	home.files["/charts/index.yaml"] = []byte(index)
	home.redirects["/charts/redirected.tgz"] = abroad.URL + "/charts/infra-1.0.0.tgz"

	client := newClient(Options{})
	credentials := Credentials{Username: "me", Password: "hunter2"}
	for _, version := range []string{"1.0.0", "2.0.0"} {
		archive, err := client.Chart(t.Context(), Chart{Repository: home.repository(), Name: "infra", Version: version}, credentials)
		wantChart(t, archive, err, "infra", version)
	}
	if len(abroad.authorized) > 0 {
		t.Errorf("another host was sent credentials for %v", abroad.authorized)
	}
	if !slices.Contains(home.authorized, "/charts/redirected.tgz") {
		t.Error("the repository itself was not")
	}
	abroad.user = "someone"
	_, err := client.Chart(t.Context(), Chart{Repository: home.repository(), Name: "infra", Version: "3.0.0"}, credentials)
	wantError[*InvalidError](t, err, "asks for credentials; they are sent to the repository's own host only")
}

// Some indexes have archives in an OCI registry, which is another host.
func TestIndexesThatPointToRegistries(t *testing.T) {
	hub := newHub(t)
	hub.pushChart(t, "infra", "1.0.0")
	hub.ask = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			t.Error("the registry was sent credentials")
		}
		return false
	}
	site := newSite(t, false)
	site.user, site.password = "me", "hunter2"
	site.files["/charts/index.yaml"] = fmt.Appendf(nil, "entries:\n  infra:\n  - {version: 1.0.0, urls: ['oci://%s/charts/infra:1.0.0']}\n  - {version: 2.0.0, urls: ['oci://%s/charts/infra:2.0.0']}\n  - {version: 3.0.0, urls: ['oci://%s/charts/infra']}\n",
		hub.host(), hub.host(), hub.host())
	get := func(version string) (Archive, error) {
		return newClient(Options{}).Chart(t.Context(), Chart{Repository: site.repository(), Name: "infra", Version: version}, Credentials{Username: "me", Password: "hunter2"})
	}
	archive, err := get("1.0.0")
	wantChart(t, archive, err, "infra", "1.0.0")
	_, err = get("2.0.0")
	wantError[*NotFoundError](t, err)
	_, err = get("3.0.0")
	wantError[*InvalidError](t, err, "without a tag")
}

func TestRedirectsThatAreRefused(t *testing.T) {
	insecure := newSite(t, false)
	insecure.publish(t, "infra", "1.0.0")
	secure := newSite(t, true)
	for target, words := range map[string]string{
		insecure.URL + "/charts/index.yaml": "it redirects from https to http",
		"/charts/index.yaml":                "it redirects more than 10 times",
		"https://169.254.169.254/":          "it redirects to a link-local address",
	} {
		secure.set(func() { secure.redirects["/charts/index.yaml"] = target })
		_, err := newClient(Options{}).Chart(t.Context(), Chart{Repository: secure.repository(), Name: "infra"}, Credentials{CA: secure.ca()})
		wantError[*UnavailableError](t, err, words)
	}
	if insecure.total() > 0 {
		t.Error("it was followed")
	}
}

func TestSitesThatAreNoRepositories(t *testing.T) {
	site := newSite(t, false)
	chart := Chart{Repository: site.repository(), Name: "infra", Version: "1.0.0"}
	entry := func(rest string) string {
		return "entries:\n  infra:\n  - {name: infra, version: 1.0.0, " + rest + "}\n"
	}
	for words, files := range map[string]map[string]string{
		"has no index.yaml":                              {},
		"is no index of a chart repository":              {"index.yaml": "<html>\n\tSign in"},
		"has no entries":                                 {"index.yaml": "hello: world"},
		"its archive is not there":                       {"index.yaml": entry("urls: [gone.tgz]")},
		"at no URL of http, https or oci":                {"index.yaml": entry("urls: ['file:///etc/passwd']")},
		"is no whole tar archive":                        {"index.yaml": entry("urls: [a.tgz]"), "a.tgz": "<html>"},
		"says of itself that it is other 1.0.0":          {"index.yaml": entry("urls: [a.tgz]"), "a.tgz": string(chartOf(t, "other", "1.0.0"))},
		"says of itself that it is infra 1.0.1":          {"index.yaml": entry("urls: [a.tgz]"), "a.tgz": string(chartOf(t, "infra", "1.0.1"))},
		"holds 0 files NAME/Chart.yaml":                  {"index.yaml": entry("urls: [a.tgz]"), "a.tgz": string(zip(t, tarOf(t, entry2("infra/values.yaml"))))},
		"Chart.yaml in chart infra 1.0.0 of " + site.URL: {"index.yaml": entry("urls: [a.tgz]"), "a.tgz": string(zip(t, tarOf(t, entry2("infra/Chart.yaml"))))},
	} {
		site.set(func() {
			clear(site.files)
			for name, text := range files {
				site.files["/charts/"+name] = []byte(text)
			}
		})
		_, err := newClient(Options{}).Chart(t.Context(), chart, Credentials{})
		wantError[*InvalidError](t, err, words)
	}
	site.set(func() { site.files["/charts/index.yaml"] = []byte("entries:\n  infra: []\n") })
	_, err := newClient(Options{}).Chart(t.Context(), chart, Credentials{})
	wantError[*NotFoundError](t, err, "has no chart infra")
}

func entry2(name string) entry { return entry{name: name, data: "a: b\n"} }

func TestDigestsAreChecked(t *testing.T) {
	site := newSite(t, false)
	site.publish(t, "infra", "1.0.0")
	chart := Chart{Repository: site.repository(), Name: "infra", Version: "1.0.0", Digest: "sha256:" + strings.Repeat("a", 64)}
	client := newClient(Options{})
	_, err := client.Chart(t.Context(), chart, Credentials{})
	wantError[*DigestError](t, err, "not "+chart.Digest+" as asked for")

	chart.Digest = ""
	archive, err := client.Chart(t.Context(), chart, Credentials{})
	wantChart(t, archive, err, "infra", "1.0.0")
	chart.Digest = archive.Digest
	archive, err = client.Chart(t.Context(), chart, Credentials{})
	wantChart(t, archive, err, "infra", "1.0.0")
	// What is kept is no way around the digest.
	chart.Digest = "sha256:" + strings.Repeat("a", 64)
	_, err = client.Chart(t.Context(), chart, Credentials{})
	wantError[*DigestError](t, err)

	chart.Digest = ""
	site.set(func() { site.files["/charts/infra-1.0.0.tgz"] = chartOf(t, "infra", "1.0.0", entry2("infra/more")) })
	_, err = newClient(Options{}).Chart(t.Context(), chart, Credentials{})
	wantError[*DigestError](t, err, "but its index promises", "tampered")
}

func TestDownloadsAreBounded(t *testing.T) {
	site := newSite(t, false)
	site.publish(t, "infra", "1.0.0")
	chart := Chart{Repository: site.repository(), Name: "infra", Version: "1.0.0"}
	_, err := newClient(Options{Limits: Limits{Archive: 100}}).Chart(t.Context(), chart, Credentials{})
	wantError[*TooLargeError](t, err, "chart infra 1.0.0 of", "is larger than the 100 bytes allowed")
	_, err = newClient(Options{Limits: Limits{Index: 1024}}).Chart(t.Context(), chart, Credentials{})
	if err != nil {
		t.Errorf("an index of %d bytes: %v", len(site.files["/charts/index.yaml"]), err)
	}
	// An answer without a length, and without an end.
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(strings.Repeat("# nothing\n", 1000))); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	_, err = newClient(Options{Limits: Limits{Index: 1 << 20}}).Chart(t.Context(), Chart{Repository: endless.URL, Name: "infra"}, Credentials{})
	wantError[*TooLargeError](t, err, "the index of", "larger than the 1 MiB allowed")
}

// Of a large index only the wanted chart's part is decoded; one that can't be cut so
// is refused before it fills the memory.
func TestLargeIndexesAreCut(t *testing.T) {
	var index strings.Builder
	index.WriteString("apiVersion: v1\nentries:\n")
	for chart := range 3000 {
		fmt.Fprintf(&index, "  chart-%d:\n", chart)
		for version := range 10 {
			fmt.Fprintf(&index, "  - description: %s\n    name: chart-%d\n    urls:\n    - chart-%d-1.%d.0.tgz\n    version: 1.%d.0\n", strings.Repeat("x", 300), chart, chart, version, version)
		}
	}
	index.WriteString("generated: x\n")
	data := []byte(index.String())
	if len(data) <= wholeIndex {
		t.Fatalf("%d bytes are not large", len(data))
	}
	entries, err := parseIndex("it", data, "chart-2999")
	if err != nil || len(entries) != 10 || entries[9].Version != "1.9.0" {
		t.Errorf("%v, %v", entries, err)
	}
	entries, err = parseIndex("it", data, "chart-3000")
	if err != nil || len(entries) != 0 {
		t.Errorf("not there: %v, %v", entries, err)
	}
	_, err = parseIndex("it", []byte(strings.Replace(index.String(), "  chart-5:", "  \"chart-5\":", 1)), "chart-1")
	wantError[*TooLargeError](t, err, "where helm repo index hasn't written it")
}

func TestIndexesInAllForms(t *testing.T) {
	for name, text := range map[string]string{
		"as Helm writes it": "apiVersion: v1\nentries:\n  a:\n  - version: 0.1.0\n    urls: [a]\n  b:\n  - version: 1.0.0\n    urls:\n    - b\n  - version: 2.0.0\n    urls: [c]\n",
		"indented lists":    "entries:\n    b:\n        - version: 1.0.0\n          urls: [b]\n        - {version: 2.0.0, urls: [c]}\n    c:\n        - version: 3.0.0\n          urls: [b]\n",
		"JSON":              `{"apiVersion":"v1","entries":{"b":[{"version":"1.0.0","urls":["b"]},{"version":"2.0.0","urls":["c"]}]}}`,
		"quoted":            "entries:\n  \"b\":\n  - version: 1.0.0\n    urls: [b]\n  - version: 2.0.0\n    urls: [c]\n",
		"bad versions":      "entries:\n  b:\n  - version: [1]\n    urls: [b]\n  - version: 1.0.0\n    urls: [b]\n  - version: 1.5.0\n  - version: 2.0.0\n    urls: [c]\n",
		"anchors":           "entries:\n  a:\n  - &x\n    version: 1.0.0\n    urls: [b]\n  b: [*x, {version: 2.0.0, urls: [c]}]\n",
		"lines of Windows":  "entries:\r\n  b:\r\n  - version: 1.0.0\r\n    urls: [b]\r\n  - version: 2.0.0\r\n    urls: [c]\r\n",
	} {
		entries, err := parseIndex("it", []byte(text), "b")
		if err != nil || len(entries) != 2 || entries[0].Version != "1.0.0" || entries[1].Version != "2.0.0" || entries[1].URLs[0] != "c" {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
}

// What is said of a repository that is down is the same each time.
func TestRepositoriesThatAreDown(t *testing.T) {
	site := newSite(t, false)
	chart := Chart{Repository: site.repository(), Name: "infra", Version: "1.0.0"}
	site.down = true
	_, err := newClient(Options{}).Chart(t.Context(), chart, Credentials{})
	wantError[*UnavailableError](t, err, "it answers 502 Bad Gateway; it is tried again")

	silent := newSite(t, false)
	silent.hold = make(chan struct{})
	_, err = newClient(Options{Timeout: 50 * time.Millisecond}).Chart(t.Context(), Chart{Repository: silent.repository(), Name: "infra"}, Credentials{})
	wantError[*UnavailableError](t, err, "it doesn't answer in time")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the operator stops"))
	_, err = newClient(Options{}).Chart(ctx, Chart{Repository: silent.repository(), Name: "infra"}, Credentials{})
	wantError[*UnavailableError](t, err, "the operator stops")
	close(silent.hold)

	site.Close()
	_, err = newClient(Options{}).Chart(t.Context(), chart, Credentials{})
	wantError[*UnavailableError](t, err, "connection refused")
	_, err = newClient(Options{}).Chart(t.Context(), Chart{Repository: "https://nowhere.invalid/charts", Name: "infra"}, Credentials{})
	wantError[*UnavailableError](t, err, "the name nowhere.invalid can't be resolved")
}
