package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// cache is what has been fetched: archives by their digest, which version of which
// chart has which digest, and how constraints were resolved. A disk that is full or
// can't be written to makes it smaller, not wrong.
type cache struct {
	memory *memory
	disk   *disk // nil without a directory
}

func newCache(options Options) *cache {
	if options.Cache == "" {
		return &cache{memory: newMemory(orDefault(options.CacheSize, defaultInMemory))}
	}
	most := orDefault(options.CacheSize, defaultOnDisk)
	return &cache{
		memory: newMemory(min(most, besideDisk)),
		disk:   &disk{dir: options.Cache, most: most, now: options.Now},
	}
}

func orDefault[T ~int64](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}

// known says what a version of a chart is.
type known struct {
	Name, Version, Digest, Source string
}

// resolution is how a constraint was resolved.
type resolution struct {
	Version string
	// At is when the repository said so, Tried when it was last asked.
	At, Tried time.Time
	// Fault is why it didn't answer when it was last asked; empty if it did.
	Fault string
}

// keyOf makes a file's name of what identifies something.
func keyOf(kind string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return kind + "-" + hex.EncodeToString(sum[:])
}

func chartKey(repository, name, version string) string {
	return keyOf("chart", repository, name, strings.TrimPrefix(version, "v"))
}

func resolutionKey(repository, name, constraint string) string {
	return keyOf("resolution", repository, name, constraint)
}

func blobKey(digest string) string { return "blob-" + strings.ReplaceAll(digest, ":", "-") }

func (c *cache) get(key string) ([]byte, bool) {
	if data, found := c.memory.get(key); found {
		return data, true
	}
	if c.disk == nil {
		return nil, false
	}
	return c.disk.get(key)
}

// put keeps a value in memory for as long as there is room, and on disk if that
// works. If it doesn't, the next process fetches again.
func (c *cache) put(key string, data []byte) {
	c.memory.put(key, data)
	if c.disk != nil {
		_ = c.disk.put(key, data)
	}
}

// blob returns the archive of a digest. What a disk has done to it since it was
// written doesn't go unseen.
func (c *cache) blob(digest string) ([]byte, bool) {
	key := blobKey(digest)
	if data, found := c.memory.get(key); found {
		return data, true
	}
	if c.disk == nil {
		return nil, false
	}
	data, found := c.disk.get(key)
	if !found || Digest(data) != digest {
		return nil, false
	}
	c.memory.put(key, data)
	return data, true
}

// read returns the value of a key, if there is one that can be read.
func read[T any](c *cache, key string) (T, bool) {
	var value T
	data, found := c.get(key)
	if !found || json.Unmarshal(data, &value) != nil {
		return *new(T), false
	}
	return value, true
}

func write[T any](c *cache, key string, value T) {
	data, err := json.Marshal(value)
	if err == nil {
		c.put(key, data)
	}
}

// chart returns the archive of a version, if both are kept.
func (c *cache) chart(repository, name, version string) (Archive, bool) {
	is, found := read[known](c, chartKey(repository, name, version))
	if !found {
		return Archive{}, false
	}
	data, found := c.blob(is.Digest)
	return Archive{Name: is.Name, Version: is.Version, Digest: is.Digest, Source: is.Source, Data: data}, found
}

// keep keeps an archive. The archive comes first, so that whatever names it is
// true.
func (c *cache) keep(repository string, archive Archive) {
	c.put(blobKey(archive.Digest), archive.Data)
	write(c, chartKey(repository, archive.Name, archive.Version), known{
		Name: archive.Name, Version: archive.Version, Digest: archive.Digest, Source: archive.Source,
	})
}
