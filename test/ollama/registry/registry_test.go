package registry_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/test/ollama/model"
	"github.com/slipway-dev/slipway/test/ollama/registry"
)

// ask sends a request and returns the status and the body, of which what was
// sent arrives.
func ask(t *testing.T, method, url, body string, headers ...string) (int, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

// TestFaultsAreSwitchedFromOutside does what a test does whose registry runs in a
// pod.
func TestFaultsAreSwitchedFromOutside(t *testing.T) {
	listener := httptest.NewServer(registry.New(registry.Usual()))
	defer listener.Close()
	manifest := listener.URL + "/v2/library/tinyllama/manifests/latest"
	data := listener.URL + "/v2/library/tinyllama/blobs/" + model.First().Data
	faults := func(text string) {
		t.Helper()
		if status, body, err := ask(t, http.MethodPut, listener.URL+"/control/faults", text); status != http.StatusOK || err != nil {
			t.Fatalf("%d %s %v", status, body, err)
		}
	}
	faults(`{"fail": 2, "skip": 1, "status": 503}`)
	for i, want := range []int{200, 503, 503, 200} {
		if status, _, err := ask(t, http.MethodGet, manifest, ""); status != want || err != nil {
			t.Errorf("request %d gives %d, %v; want %d", i, status, err, want)
		}
	}
	faults(`{"break": 1, "breakAfter": 10}`)
	for _, broken := range []bool{true, false} {
		status, body, err := ask(t, http.MethodGet, data, "", "Range", "bytes=0-99")
		if status != http.StatusPartialContent || broken != (err != nil) || broken != (len(body) == 10) {
			t.Errorf("a transfer gives %d, %d bytes, %v", status, len(body), err)
		}
	}
	if status, _, _ := ask(t, http.MethodPut, listener.URL+"/control/faults", `{"fails": 1}`); status != http.StatusBadRequest {
		t.Errorf("a fault that there isn't gives %d", status)
	}
	_, body, err := ask(t, http.MethodGet, listener.URL+"/control/requests", "")
	var requests []registry.Request
	if err != nil || json.Unmarshal([]byte(body), &requests) != nil || len(requests) != 6 || requests[5].Start() != 0 {
		t.Errorf("the requests were %s, %v", body, err)
	}
	if _, body, err := ask(t, http.MethodDelete, listener.URL+"/control/requests", ""); err != nil || strings.TrimSpace(body) != "[]" {
		t.Errorf("after forgetting, the requests were %s, %v", body, err)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	listener := httptest.NewServer(registry.New(registry.Usual()))
	defer listener.Close()
	for _, path := range []string{
		"/v2/library/nobody/manifests/latest", "/v2/library/tinyllama/manifests/7b",
		"/v2/library/tinyllama/blobs/sha256:00", "/v2/library/tinyllama/blobs/" + model.Second().Data,
		"/v2/", "/v2/library/tinyllama", "/",
	} {
		if status, _, err := ask(t, http.MethodGet, listener.URL+path, ""); status != http.StatusNotFound || err != nil {
			t.Errorf("%s gives %d, %v", path, status, err)
		}
	}
}
