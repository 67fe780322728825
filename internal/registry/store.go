package registry

import (
	"container/list"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of what is kept, in bytes.
const (
	defaultOnDisk   = 256 << 20
	defaultInMemory = 32 << 20
	// besideDisk is how much is kept in memory of what is on disk, so that a chart
	// that is asked for again and again is read once.
	besideDisk = 8 << 20
)

// staleTemporary is after how long a file that was never finished is a dead
// process's.
const staleTemporary = time.Hour

const temporaryPrefix = ".unfinished-"

// memory keeps values by key up to a size, the ones used last. It is safe for
// concurrent use.
type memory struct {
	most int64

	mu    sync.Mutex
	size  int64
	items map[string]*list.Element
	used  *list.List // of memoryItem, the last used first
}

type memoryItem struct {
	key  string
	data []byte
}

func newMemory(most int64) *memory {
	return &memory{most: most, items: map[string]*list.Element{}, used: list.New()}
}

func (m *memory) get(key string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	item, found := m.items[key]
	if !found {
		return nil, false
	}
	m.used.MoveToFront(item)
	return item.Value.(memoryItem).data, true
}

func (m *memory) put(key string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
	if int64(len(data)) > m.most {
		return
	}
	m.items[key] = m.used.PushFront(memoryItem{key: key, data: data})
	m.size += int64(len(data))
	for m.size > m.most {
		m.remove(m.used.Back().Value.(memoryItem).key)
	}
}

func (m *memory) remove(key string) {
	if item, found := m.items[key]; found {
		m.size -= int64(len(item.Value.(memoryItem).data))
		m.used.Remove(item)
		delete(m.items, key)
	}
}

// disk keeps values as files in a directory up to a size, the ones used last. A file
// appears whole or not at all, so that a process that dies leaves nothing that could
// be taken for a value. Several processes may share the directory.
type disk struct {
	dir  string
	most int64
	now  func() time.Time
}

// get reads a value. A key is a file's name.
func (d *disk) get(key string) ([]byte, bool) {
	path := filepath.Join(d.dir, key)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	// How lately it was used; that it can't be said is no reason to do without it.
	_ = os.Chtimes(path, time.Time{}, d.now())
	return data, true
}

func (d *disk) put(key string, data []byte) (err error) {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	d.tidy(int64(len(data)))
	file, err := os.CreateTemp(d.dir, temporaryPrefix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	_, err = file.Write(data)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Chtimes(file.Name(), time.Time{}, d.now()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(d.dir, key))
}

// tidy makes room for a value, and removes what dead processes left.
func (d *disk) tidy(room int64) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return
	}
	kept, total := []fs.FileInfo{}, room
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if strings.HasPrefix(info.Name(), temporaryPrefix) && d.now().Sub(info.ModTime()) > staleTemporary {
			os.Remove(filepath.Join(d.dir, info.Name()))
			continue
		}
		kept = append(kept, info)
		total += info.Size()
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, oldest := range kept {
		if total <= d.most {
			return
		}
		if strings.HasPrefix(oldest.Name(), temporaryPrefix) {
			continue // Someone is writing it.
		}
		os.Remove(filepath.Join(d.dir, oldest.Name()))
		total -= oldest.Size()
	}
}
