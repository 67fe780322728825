package registry

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// caches are the two places where fetched charts are kept.
func caches(t *testing.T) map[string]Options {
	return map[string]Options{"memory": {}, "directory": {Cache: filepath.Join(t.TempDir(), "cache")}}
}

func TestExactVersionsAreFetchedOnce(t *testing.T) {
	for name, options := range caches(t) {
		site := newSite(t, false)
		site.publish(t, "infra", "v1.0.0")
		client := newClient(options)
		chart := Chart{Repository: site.repository(), Name: "infra", Version: "1.0.0"}
		first, err := client.Chart(t.Context(), chart, Credentials{})
		wantChart(t, first, err, "infra", "v1.0.0")
		site.Close()
		if name == "directory" { // Another process, and later.
			later := newClock()
			later.pass(1000 * time.Hour)
			options.Now = later.Now
			client = newClient(options)
		}
		for _, written := range []string{"1.0.0", "v1.0.0", " 1.0.0"} {
			chart.Version = written
			again, err := client.Chart(t.Context(), chart, Credentials{})
			wantChart(t, again, err, "infra", "v1.0.0")
			if again.Digest != first.Digest || again.Source != first.Source || again.Stale != nil {
				t.Errorf("%s: %+v, then %+v", name, first, again)
			}
		}
		if site.total() != 2 {
			t.Errorf("%s: %d requests", name, site.total())
		}
	}
}

func TestConstraintsAreLookedUpOnceInAWhile(t *testing.T) {
	for name, options := range caches(t) {
		site := newSite(t, false)
		site.publish(t, "infra", "1.0.0")
		clock := newClock()
		options.Now = clock.Now
		client := newClient(options)
		get := func(want string, stale bool, requests int) {
			t.Helper()
			before := site.total()
			archive, err := client.Chart(t.Context(), Chart{Repository: site.repository(), Name: "infra", Version: "^1"}, Credentials{})
			wantChart(t, archive, err, "infra", want)
			if (archive.Stale != nil) != stale || site.total()-before != requests {
				t.Errorf("%s: stale %v after %d requests, want %v after %d", name, archive.Stale, site.total()-before, stale, requests)
			}
		}
		get("1.0.0", false, 2)
		site.publish(t, "infra", "1.0.0", "1.1.0")
		clock.pass(defaultInterval - time.Second)
		get("1.0.0", false, 0)
		clock.pass(time.Second)
		get("1.1.0", false, 2)
		clock.pass(defaultInterval)
		get("1.1.0", false, 1) // Nothing new: the index alone.

		site.set(func() { site.down = true })
		get("1.1.0", false, 0)
		clock.pass(defaultInterval)
		get("1.1.0", true, 1)
		get("1.1.0", true, 0) // It isn't asked again at once,
		clock.pass(defaultInterval / retryPart)
		get("1.1.0", true, 1)
		if name == "directory" { // and another process knows, too.
			client = newClient(options)
			get("1.1.0", true, 0)
		}
		site.set(func() { site.down = false; site.user = "me" })
		clock.pass(defaultInterval / retryPart)
		get("1.1.0", true, 1)
		site.set(func() { site.user = "" })
		site.publish(t, "infra", "1.2.0")
		clock.pass(defaultInterval / retryPart)
		get("1.2.0", false, 2)
		// A clock that goes backwards doesn't make an answer last for ever.
		clock.pass(-1000 * time.Hour)
		get("1.2.0", false, 1)
		// That a version is gone is no fault that passes.
		site.publish(t, "infra", "2.0.0")
		clock.pass(defaultInterval)
		_, err := client.Chart(t.Context(), Chart{Repository: site.repository(), Name: "infra", Version: "^1"}, Credentials{})
		wantError[*NotFoundError](t, err, "has no version ^1 of chart infra; it has 2.0.0")
	}
}

func TestManyWhoAskMakeOneDownload(t *testing.T) {
	site := newSite(t, false)
	site.publish(t, "infra", "1.0.0")
	site.hold = make(chan struct{})
	client := newClient(Options{})
	chart := Chart{Repository: site.repository(), Name: "infra", Version: "1.0.0"}
	var group errgroup.Group
	var started sync.WaitGroup
	for range 50 {
		started.Add(1)
		group.Go(func() error {
			started.Done()
			archive, err := client.Chart(t.Context(), chart, Credentials{})
			if err == nil && archive.Version != "1.0.0" {
				err = errors.New(archive.Version)
			}
			return err
		})
	}
	started.Wait()
	close(site.hold)
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if site.total() != 2 {
		t.Errorf("%d requests: %v", site.total(), site.requests)
	}
}

func TestCachesAreBounded(t *testing.T) {
	site := newSite(t, false)
	versions := []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"}
	site.publish(t, "infra", versions...)
	size := int64(len(chartOf(t, "infra", "1.0.0")))
	for _, options := range caches(t) {
		clock := newClock()
		options.Now = clock.Now
		options.CacheSize = 3*size + 1000
		for _, version := range append(versions, "1.3.0") {
			clock.pass(time.Minute)
			archive, err := newClient(options).Chart(t.Context(), Chart{Repository: site.repository(), Name: "infra", Version: version}, Credentials{})
			wantChart(t, archive, err, "infra", version)
		}
		if options.Cache == "" {
			continue
		}
		total, files := int64(0), 0
		entries, err := os.ReadDir(options.Cache)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil {
				t.Fatal(err)
			}
			total += info.Size()
			files++
		}
		if total > options.CacheSize || files < 4 {
			t.Errorf("%d bytes in %d files, of %d allowed", total, files, options.CacheSize)
		}
		before := site.total()
		_, err = newClient(options).Chart(t.Context(), Chart{Repository: site.repository(), Name: "infra", Version: "1.3.0"}, Credentials{})
		if err != nil || site.total() != before {
			t.Errorf("what was used last is gone: %v", err)
		}
	}
	clock := newClock()
	files := disk{dir: t.TempDir(), most: 10, now: clock.Now}
	for _, step := range []func(){
		func() { _ = files.put("a", []byte("12345")) },
		func() { _ = files.put("b", []byte("12345")) },
		func() { files.get("a") },
		func() { _ = files.put("c", []byte("12345")) },
	} {
		clock.pass(time.Minute)
		step()
	}
	for key, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if _, found := files.get(key); found != want {
			t.Errorf("%s is on disk: %v", key, found)
		}
	}
	kept := newMemory(10)
	kept.put("a", []byte("12345"))
	kept.put("b", []byte("12345"))
	kept.get("a")
	kept.put("c", []byte("12345"))
	kept.put("huge", []byte("12345678901"))
	for key, want := range map[string]bool{"a": true, "b": false, "c": true, "huge": false} {
		if _, found := kept.get(key); found != want {
			t.Errorf("%s is kept: %v", key, found)
		}
	}
	kept.put("a", []byte("1"))
	if kept.size != 6 {
		t.Errorf("%d bytes", kept.size)
	}
}

func TestDamagedCachesAreMended(t *testing.T) {
	site := newSite(t, false)
	site.publish(t, "infra", "1.0.0")
	chart := Chart{Repository: site.repository(), Name: "infra", Version: "1.0.0"}
	dir := t.TempDir()
	fetch := func(wantRequests int) {
		t.Helper()
		before := site.total()
		archive, err := newClient(Options{Cache: dir}).Chart(t.Context(), chart, Credentials{})
		wantChart(t, archive, err, "infra", "1.0.0")
		if got := site.total() - before; got != wantRequests {
			t.Errorf("%d requests, want %d", got, wantRequests)
		}
	}
	fetch(2)
	fetch(0)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, damage := range [][]byte{data[:len(data)/2], nil, []byte(strings.Repeat("x", len(data)))} {
			if err := os.WriteFile(path, damage, 0o600); err != nil {
				t.Fatal(err)
			}
			fetch(2)
			fetch(0)
		}
	}
	// A directory that can't be one takes nothing away but the keeping.
	blocked := filepath.Join(t.TempDir(), "file")
	writeFiles(t, filepath.Dir(blocked), map[string][]byte{"file": nil})
	dir = filepath.Join(blocked, "cache")
	fetch(2)
}

// killed is the environment's name of the directory that a process of this test
// fills until it is killed.
const killed = "SLIPWAY_TEST_FILLS_CACHE"

// A process that is killed while it writes leaves nothing that could be taken for an
// archive.
func TestCacheOfAProcessThatIsKilled(t *testing.T) {
	if dir := os.Getenv(killed); dir != "" {
		fill(dir)
	}
	dir := t.TempDir()
	for range 5 {
		process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCacheOfAProcessThatIsKilled$")
		process.Env = append(os.Environ(), killed+"="+dir)
		out, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		lines.Scan() // It is at work,
		awaitPart(t, dir)
		if err := process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = process.Wait()
		left, err := filepath.Glob(filepath.Join(dir, temporaryPrefix+"*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range left {
			os.Remove(file) // So that the next round waits for its own.
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	whole := 0
	for _, file := range files {
		if strings.HasPrefix(file.Name(), temporaryPrefix) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil || blobKey(Digest(data)) != file.Name() {
			t.Errorf("%s isn't whole: %d bytes, %v", file.Name(), len(data), err)
		}
		whole++
	}
	if whole == 0 {
		t.Fatal("nothing was written")
	}
	// What it left unfinished is removed in time; there may be none.
	writeFiles(t, dir, map[string][]byte{temporaryPrefix + "left": []byte("half")})
	later := disk{dir: dir, most: defaultOnDisk, now: func() time.Time { return time.Now().Add(2 * staleTemporary) }}
	if err := later.put("new", nil); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, temporaryPrefix+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// filled is the size of an archive that fill writes: large, so that a write takes a
// while.
const filled = 16 << 20

// awaitPart returns in the midst of a write.
func awaitPart(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if info, err := file.Info(); err == nil && info.Size() > 0 && info.Size() < filled {
				return
			}
		}
	}
	t.Error("no write was seen")
}

// fill writes archives until it is killed.
func fill(dir string) {
	kept := newCache(Options{Cache: dir, CacheSize: 4 * filled, Now: time.Now})
	data := make([]byte, filled)
	for i := 0; ; i++ {
		data[i%len(data)]++
		kept.put(blobKey(Digest(data)), data)
		fmt.Println("written")
	}
}
