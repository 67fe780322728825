package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/slipway-dev/slipway/internal/cluster/lock"
)

// workPrefix names temporary folders of control planes.
const workPrefix = "slipway-control-plane-"

// workDir is a folder with a control plane's data. A temporary one is locked
// while its owner lives, so that the next start can tell those that a killed
// process left behind, and remove them.
type workDir struct {
	path      string
	temporary bool
	held      *lock.Lock
}

func newWorkDir(path string) (*workDir, error) {
	if path != "" {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, fmt.Errorf("make the folder for the control plane: %w", err)
		}
		return &workDir{path: path}, nil
	}
	sweep(os.TempDir())
	path, err := os.MkdirTemp("", workPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	held, err := lock.Acquire(context.Background(), filepath.Join(path, "lock"), nil)
	if err != nil {
		return nil, err
	}
	return &workDir{path: path, temporary: true, held: held}, nil
}

func (d *workDir) release() {
	if d.temporary {
		_ = os.RemoveAll(d.path)
	}
	d.held.Release()
}

// sweep removes the folders of control planes whose process is gone. A folder
// without a lock file is young: its owner is about to lock it.
func sweep(parent string) {
	found, err := filepath.Glob(filepath.Join(parent, workPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		path := filepath.Join(dir, "lock")
		if _, err := os.Stat(path); err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		held, err := lock.Acquire(ctx, path, nil)
		cancel()
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		held.Release()
	}
}
