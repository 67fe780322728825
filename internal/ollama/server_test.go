package ollama_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/ollama"
	"github.com/slipway-dev/slipway/test/ollama/model"
	"github.com/slipway-dev/slipway/test/ollama/registry"
	"github.com/slipway-dev/slipway/test/ollama/server"
)

// patience bounds a call that must succeed.
const patience = time.Minute

// world is a real server and a registry that it pulls from.
type world struct {
	*server.Server
	client   *ollama.Client
	registry *registry.Registry
	// host is the registry's address.
	host string
}

func start(t *testing.T, opts server.Options) world {
	t.Helper()
	handler := registry.New(registry.Usual())
	listener := httptest.NewServer(handler)
	t.Cleanup(listener.Close)
	running := server.Start(t, opts)
	return world{
		Server: running, client: &ollama.Client{BaseURL: running.URL},
		registry: handler, host: strings.TrimPrefix(listener.URL, "http://"),
	}
}

// named is the full name of a model of the registry.
func (w world) named(model string) string { return w.host + "/library/" + model }

func bounded(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func (w world) pull(t *testing.T, model string) []ollama.Progress {
	t.Helper()
	var seen []ollama.Progress
	err := w.client.Pull(bounded(t, patience), model, true, func(p ollama.Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestPullLoadAskAndRemove(t *testing.T) {
	t.Parallel()
	w := start(t, server.Options{})
	ctx := bounded(t, patience)
	if version, err := w.client.Version(ctx); err != nil || version != "0.9.6" {
		t.Errorf("the version is %q, %v", version, err)
	}
	name := w.named("tinyllama:latest")
	seen := w.pull(t, w.named("tinyllama"))
	percent := 0
	for _, p := range seen {
		if p.Percent() < percent-1 {
			t.Errorf("the progress goes from %d%% to %+v", percent, p)
		}
		percent = p.Percent()
	}
	last := seen[len(seen)-1]
	if size := int64(len(model.First().Blobs[model.First().Data])); percent != 100 || last.Total <= size || last.Completed != last.Total {
		t.Errorf("the last progress is %+v, want more than the %d bytes of the data", last, size)
	}

	stored, err := w.client.Tags(ctx)
	if err != nil || len(stored) != 1 || stored[0].Name != name || stored[0].Digest == "" || stored[0].Size != last.Total {
		t.Fatalf("stored are %+v, %v; want %s of %d bytes", stored, err, name, last.Total)
	}
	if loaded, err := w.client.Loaded(ctx); err != nil || len(loaded) != 0 {
		t.Errorf("loaded are %+v, %v; want none", loaded, err)
	}
	if err := w.client.Load(ctx, name, -1); err != nil {
		t.Fatal(err)
	}
	loaded, err := w.client.Loaded(ctx)
	if err != nil || len(loaded) != 1 || loaded[0].Name != name || loaded[0].Size == 0 || time.Until(loaded[0].ExpiresAt) < 24*time.Hour {
		t.Errorf("loaded are %+v, %v; want %s for ever", loaded, err, name)
	}
	answer, err := w.client.Generate(ctx, name, "Tell me something.", ollama.Limits{})
	if err != nil || answer.Text != model.Steady || answer.Truncated || answer.Tokens == 0 {
		t.Errorf("the answer is %+v, %v; want %q", answer, err, model.Steady)
	}

	if err := w.client.Copy(ctx, name, "team/mine"); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(ctx, name); err != nil {
		t.Fatal(err)
	}
	stored, err = w.client.Tags(ctx)
	if err != nil || len(stored) != 1 || stored[0].Name != "team/mine:latest" {
		t.Errorf("after copy and delete, stored are %+v, %v", stored, err)
	}
	if answer, err := w.client.Generate(ctx, "team/mine", "And the copy?", ollama.Limits{}); err != nil || answer.Text != model.Steady {
		t.Errorf("the copy answers %+v, %v", answer, err)
	}
	if err := w.client.Unload(ctx, "team/mine"); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool {
		for _, running := range mustLoaded(t, w.client) {
			if running.Name == "team/mine:latest" {
				return false
			}
		}
		return true
	})
}

func mustLoaded(t *testing.T, client *ollama.Client) []ollama.Running {
	t.Helper()
	loaded, err := client.Loaded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func TestEndlessAnswersAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := model.First().Store(dir, "tinyllama"); err != nil {
		t.Fatal(err)
	}
	w := start(t, server.Options{Models: dir})
	ctx := bounded(t, patience)
	if err := w.client.Load(ctx, "tinyllama", time.Minute); err != nil {
		t.Fatal(err)
	}
	prompt := "Go on " + model.Loop
	answer, err := w.client.Generate(ctx, "tinyllama", prompt, ollama.Limits{Tokens: 7})
	if err != nil || answer.Tokens != 7 || !answer.Truncated || answer.Text != " round and round and round and round" {
		t.Errorf("7 tokens are %+v, %v", answer, err)
	}
	answer, err = w.client.Generate(ctx, "tinyllama", prompt, ollama.Limits{Bytes: 9})
	if err != nil || !answer.Truncated || answer.Text != " round an" {
		t.Errorf("9 bytes are %+v, %v", answer, err)
	}
	soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	// With a limit far off: now and then Ollama misses that its client has gone, and
	// goes on for ever with a prompt that has none.
	answer, err = w.client.Generate(soon, "tinyllama", prompt, ollama.Limits{Bytes: 1 << 30, Tokens: 30_000})
	if !errors.Is(err, context.DeadlineExceeded) || !answer.Truncated || !strings.HasPrefix(answer.Text, " round and round") {
		t.Errorf("after the deadline: %d bytes, %v; want what was said until then", len(answer.Text), err)
	}
	// The server stopped with us, and answers others.
	if answer, err := w.client.Generate(ctx, "tinyllama", "Still there?", ollama.Limits{}); err != nil || answer.Text != model.Steady {
		t.Errorf("afterwards the answer is %+v, %v", answer, err)
	}
}

func TestBrokenPullGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	w := start(t, server.Options{})
	const had = 100_000
	w.registry.Set(registry.Faults{Break: 1, BreakAfter: had})
	w.pull(t, w.named("tinyllama"))
	if starts := w.starts(model.First().Data); fmt.Sprint(starts) != fmt.Sprintf("[0 %d]", had) {
		t.Errorf("the data was asked for from %v, want from 0 and %d", starts, had)
	}
	if answer, err := w.client.Generate(bounded(t, patience), w.named("tinyllama"), "Whole?", ollama.Limits{}); err != nil || answer.Text != model.Steady {
		t.Errorf("the model answers %+v, %v", answer, err)
	}
}

// starts are the positions from which the data of a digest was asked for.
func (w world) starts(digest string) []int64 {
	var list []int64
	for _, request := range w.registry.Requests() {
		if strings.HasSuffix(request.Path, digest) && request.Start() >= 0 {
			list = append(list, request.Start())
		}
	}
	return list
}

// TestPullGoesOnAfterTheServerStarted gives up a pull half-way and starts the
// server anew, as a pod is replaced whose volume stays.
func TestPullGoesOnAfterTheServerStarted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env   []string
		keeps bool
	}{
		"by default the server drops what isn't whole": {nil, false},
		"OLLAMA_NOPRUNE keeps it":                      {[]string{"OLLAMA_NOPRUNE=1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := start(t, server.Options{Env: test.env})
			first.registry.Set(registry.Faults{BytesPerSecond: 100_000})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := first.client.Pull(ctx, first.named("tinyllama"), true, func(p ollama.Progress) {
				if p.Completed > 50_000 {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("a pull that was given up ends with %v", err)
			}
			part := filepath.Join(first.Models, "blobs", strings.Replace(model.First().Data, ":", "-", 1)+"-partial-0")
			await(t, func() bool {
				noted, err := os.ReadFile(part)
				return err == nil && !strings.Contains(string(noted), `"Completed":0}`)
			})
			first.Stop(t, syscall.SIGTERM)
			first.registry.Set(registry.Faults{})
			first.registry.Forget()
			again := server.Start(t, server.Options{Models: first.Models, Env: test.env})
			first.client.BaseURL = again.URL
			first.pull(t, first.named("tinyllama"))
			starts := first.starts(model.First().Data)
			if len(starts) != 1 || (starts[0] > 0) != test.keeps {
				t.Errorf("the data was asked for from %v", starts)
			}
		})
	}
}

// await polls what sends no event.
func await(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	ctx := bounded(t, patience)
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it doesn't happen")
		}
	}
}

func TestFailuresSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	w := start(t, server.Options{})
	ctx := bounded(t, 2*patience)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	pull := func(name string) error { return w.client.Pull(ctx, name, true, nil) }
	for _, test := range []struct {
		what   string
		faults registry.Faults
		do     func() error
		kind   error
	}{
		{"a model that the registry hasn't", registry.Faults{}, func() error { return pull(w.named("nobody")) }, ollama.ErrModelNotFound},
		{"a tag that the registry hasn't", registry.Faults{}, func() error { return pull(w.named("tinyllama:70b")) }, ollama.ErrModelNotFound},
		{"a name that is none", registry.Faults{}, func() error { return pull("a//b") }, ollama.ErrRefused},
		{"a registry that fails at once", registry.Faults{Fail: 1}, func() error { return pull(w.named("tinyllama")) }, ollama.ErrRegistry},
		{"a registry that is overrun", registry.Faults{Fail: 1, Status: 429}, func() error { return pull(w.named("tinyllama")) }, ollama.ErrRegistry},
		{"a registry that wants a newer server", registry.Faults{Fail: 1, Status: 412}, func() error { return pull(w.named("tinyllama")) }, ollama.ErrRefused},
		{"a registry that forbids it", registry.Faults{Fail: 1, Status: 403}, func() error { return pull(w.named("tinyllama")) }, ollama.ErrRefused},
		{"a registry that wants credentials", registry.Faults{Fail: 9, Status: 401}, func() error { return pull(w.named("tinyllama")) }, ollama.ErrRefused},
		{"a registry that fails in the middle", registry.Faults{Skip: 1, Fail: 1, Status: 503}, func() error { return pull(w.named("tinyllama")) }, ollama.ErrRegistry},
		{"a registry that lacks the data", registry.Faults{Skip: 1, Fail: 1, Status: 404}, func() error { return pull(w.named("tinyllama")) }, ollama.ErrRegistry},
		{"a registry that sends damaged data", registry.Faults{Damage: 1}, func() error { return pull(w.named("tinyllama")) }, ollama.ErrRegistry},
		{"a registry that isn't there", registry.Faults{}, func() error {
			return pull(strings.TrimPrefix(closed.URL, "http://") + "/library/tinyllama")
		}, ollama.ErrRegistry},
		{"a registry of plain HTTP without insecure", registry.Faults{}, func() error {
			return w.client.Pull(ctx, w.named("tinyllama"), false, nil)
		}, ollama.ErrRegistry},
		{"to load what isn't stored", registry.Faults{}, func() error { return w.client.Load(ctx, "nobody", 0) }, ollama.ErrModelNotFound},
		{"to unload what isn't stored", registry.Faults{}, func() error { return w.client.Unload(ctx, "nobody") }, ollama.ErrModelNotFound},
		{"to ask what isn't stored", registry.Faults{}, func() error {
			_, err := w.client.Generate(ctx, "nobody", "Who?", ollama.Limits{})
			return err
		}, ollama.ErrModelNotFound},
		{"to delete what isn't stored", registry.Faults{}, func() error { return w.client.Delete(ctx, "nobody") }, ollama.ErrModelNotFound},
		{"to copy what isn't stored", registry.Faults{}, func() error { return w.client.Copy(ctx, "nobody", "b") }, ollama.ErrModelNotFound},
		{"to copy to what is no name", registry.Faults{}, func() error { return w.client.Copy(ctx, "a", "b//c") }, ollama.ErrRefused},
	} {
		w.registry.Set(test.faults)
		err := test.do()
		if !errors.Is(err, test.kind) {
			t.Errorf("%s: got %v, want %v", test.what, err, test.kind)
		}
	}
	// And a pull after all of that works.
	w.registry.Set(registry.Faults{})
	w.pull(t, w.named("tinyllama"))
}

// TestRegistryRecoversDuringPull has the registry fail where Ollama itself tries
// again: when it asks where the data is, and when it transfers it.
func TestRegistryRecoversDuringPull(t *testing.T) {
	t.Parallel()
	w := start(t, server.Options{})
	for name, faults := range map[string]registry.Faults{
		"tinyllama": {Skip: 2, Fail: 3, Status: http.StatusServiceUnavailable},
		"llama2:7b": {Skip: 3, Fail: 1},
	} {
		w.registry.Set(faults)
		w.pull(t, w.named(name))
		if left := w.registry.Faults().Fail; left != 0 {
			t.Errorf("%s: %d failures were not met", name, left)
		}
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := start(t, server.Options{Space: 200 << 10})
	for range 2 {
		err := w.client.Pull(bounded(t, patience), w.named("tinyllama"), true, nil)
		if !errors.Is(err, ollama.ErrNoSpace) {
			t.Errorf("a pull to a full disk ends with %v", err)
		}
	}
}

// TestDiskThatIsFullToTheLastByte leaves no space even for Ollama's note of how
// far a pull is. It then trips over the empty note until it is started anew.
func TestDiskThatIsFullToTheLastByte(t *testing.T) {
	t.Parallel()
	w := start(t, server.Options{Space: 1 << 20})
	filler := filepath.Join(w.Folder(), "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk takes it: %v", err)
	}
	ctx := bounded(t, patience)
	if err := w.client.Pull(ctx, w.named("tinyllama"), true, nil); !errors.Is(err, ollama.ErrNoSpace) {
		t.Errorf("the first pull ends with %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Pull(ctx, w.named("tinyllama"), true, nil); !errors.Is(err, ollama.ErrStorage) {
		t.Errorf("with space again, a pull ends with %v", err)
	}
	left, err := filepath.Glob(filepath.Join(w.Folder(), "blobs", "*-partial*"))
	if err != nil || len(left) == 0 {
		t.Fatalf("the rest of the pull isn't there: %v", err)
	}
	for _, file := range left {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	w.pull(t, w.named("tinyllama"))
}

func TestModelThatFitsIntoNoMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := model.Huge().Store(dir, "huge"); err != nil {
		t.Fatal(err)
	}
	w := start(t, server.Options{Models: dir})
	if err := w.client.Load(bounded(t, patience), "huge", -1); !errors.Is(err, ollama.ErrNoMemory) {
		t.Errorf("to load it ends with %v", err)
	}
}

func TestServerThatIsGone(t *testing.T) {
	t.Parallel()
	w := start(t, server.Options{})
	ctx := bounded(t, patience)
	w.registry.Set(registry.Faults{BytesPerSecond: 50_000})
	err := w.client.Pull(ctx, w.named("tinyllama"), true, func(p ollama.Progress) {
		if p.Completed > 0 {
			w.Stop(t, syscall.SIGKILL)
		}
	})
	if !errors.Is(err, ollama.ErrUnreachable) {
		t.Errorf("a pull whose server was killed ends with %v", err)
	}
	_, err = w.client.Version(ctx)
	if !errors.Is(err, ollama.ErrUnreachable) {
		t.Errorf("a server that is gone gives %v", err)
	}
}

// TestServerEndsWithZeroWhenAsked holds what a pod relies on that is to complete
// when its server is told to end.
func TestServerEndsWithZeroWhenAsked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := model.First().Store(dir, "tinyllama"); err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func(world, context.Context) error{
		"idle":         func(world, context.Context) error { return nil },
		"with a model": func(w world, ctx context.Context) error { return w.client.Load(ctx, "tinyllama", -1) },
		"while it pulls": func(w world, ctx context.Context) error {
			w.registry.Set(registry.Faults{BytesPerSecond: 10_000})
			began := make(chan struct{})
			var once sync.Once
			go func() {
				// It ends with the server.
				_ = w.client.Pull(ctx, w.named("llama2"), true, func(p ollama.Progress) {
					if p.Completed > 0 {
						once.Do(func() { close(began) })
					}
				})
			}()
			return first(ctx, began)
		},
		"while it answers": func(w world, ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/api/generate",
				strings.NewReader(`{"model": "tinyllama", "prompt": "Go on `+model.Loop+`"}`))
			if err != nil {
				return err
			}
			// The status comes with the first token, and the body ends with the server.
			_, err = http.DefaultClient.Do(request)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, server.Options{Models: dir})
			if err := prepare(w, bounded(t, patience)); err != nil {
				t.Fatal(err)
			}
			if code := w.Stop(t, syscall.SIGTERM); code != 0 {
				t.Errorf("the server ends with %d", code)
			}
		})
	}
}

// first waits for something to begin.
func first(ctx context.Context, began <-chan struct{}) error {
	select {
	case <-began:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestPageOfAModel holds what a probe can ask without a body. A name with a
// slash has no page, however it is written.
func TestPageOfAModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"tinyllama", "team/mine"} {
		if err := model.First().Store(dir, name); err != nil {
			t.Fatal(err)
		}
	}
	w := start(t, server.Options{Models: dir})
	for name, want := range map[string]int{
		"tinyllama": http.StatusOK, "tinyllama:latest": http.StatusOK, "TinyLlama": http.StatusOK,
		"tinyllama:7b": http.StatusNotFound, "nobody": http.StatusNotFound,
		"team/mine": http.StatusNotFound, "team%2Fmine:latest": http.StatusNotFound,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+"/v1/models/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != want {
			t.Errorf("/v1/models/%s gives %d, want %d", name, response.StatusCode, want)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
