package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// BenchmarkProxy is a small request through the stand-in, beside the same through
// Go's own reverse proxy and beside none: what counts is the ratio within a run.
func BenchmarkProxy(b *testing.B) {
	answer := []byte(strings.Repeat("x", 1000))
	address := upstream(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer)
	})
	target := &url.URL{Scheme: "http", Host: address}
	bare := httputil.NewSingleHostReverseProxy(target)
	bare.Transport = &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	reverse := httptest.NewServer(bare)
	b.Cleanup(reverse.Close)
	plain := setup{routes: route("decode"), clusters: endpoint("decode", "", address)}.start(b, nil)
	picked := behind((&picker{pick: to(address)}).start(b)).start(b, nil)
	for _, test := range []struct{ name, url string }{
		{"upstream", "http://" + address}, {"reverse-proxy", reverse.URL}, {"plain", plain.url}, {"picker", picked.url},
	} {
		b.Run(test.name, func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
			b.SetParallelism(8)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					response, err := client.Post(test.url, "application/json", strings.NewReader(`{"model":"a","prompt":"hello"}`))
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
					if response.StatusCode != http.StatusOK {
						b.Errorf("got %d", response.StatusCode)
					}
				}
			})
		})
	}
}
