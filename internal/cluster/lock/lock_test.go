package lock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/cluster/lock"
)

func TestSecondHolderWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := lock.Acquire(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{})
	got := make(chan error, 1)
	go func() {
		second, err := lock.Acquire(t.Context(), path, func() { close(waits) })
		second.Release()
		got <- err
	}()
	<-waits
	select {
	case err := <-got:
		t.Fatalf("the second holder did not wait: %v", err)
	default:
	}
	first.Release()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := lock.Acquire(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := lock.Acquire(ctx, path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v, want the context's", err)
	}
}

func TestRemovedLockIsNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := lock.Acquire(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{})
	got := make(chan *lock.Lock, 1)
	go func() {
		second, err := lock.Acquire(t.Context(), path, func() { close(waits) })
		if err != nil {
			t.Error(err)
		}
		got <- second
	}()
	<-waits
	if err := first.Remove(); err != nil {
		t.Fatal(err)
	}
	second := <-got
	defer second.Release()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the second holder's file isn't there: %v", err)
	}
}
