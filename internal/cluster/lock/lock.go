// Package lock keeps two processes from doing the same work at the same time,
// by an advisory lock on a file that the kernel drops when its holder dies. It
// never waits for a holder that is gone.
package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// retryInterval is how often a waiting process tries again. flock(2) can't be
// interrupted by a context, so waiting is by trying.
const retryInterval = 200 * time.Millisecond

// Lock is a lock that is held.
type Lock struct{ file *os.File }

// Acquire takes the lock on a file, which it creates if need be, and waits for
// another holder until ctx ends. waiting, which may be nil, is called once if
// there is one.
func Acquire(ctx context.Context, path string, waiting func()) (*Lock, error) {
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	for {
		held, err := try(path)
		if held != nil || err != nil {
			return held, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock %s: %w", path, ctx.Err())
		case <-tick.C:
		}
	}
}

// try returns nil if another holds the lock.
func try(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && current(file, path) {
		return &Lock{file: file}, nil
	}
	file.Close()
	if err == nil || errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// current says whether a file is still the one at path: its holder may have
// removed it between our opening and our locking it.
func current(file *os.File, path string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(ours, there)
}

// Release drops the lock.
func (l *Lock) Release() {
	if l != nil {
		l.file.Close()
	}
}

// Remove drops the lock and removes its file.
func (l *Lock) Remove() error {
	err := os.Remove(l.file.Name())
	l.Release()
	return err
}
