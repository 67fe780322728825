package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Bounds of starting a program again: soon at first, rarer while it keeps
// dying, soon again after it ran well for a while.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 15 * time.Second
	ranWell    = time.Minute
)

// Bounds of a log: what is beyond maxLog is cut to its last keptLog bytes.
const (
	maxLog       = 16 << 20
	keptLog      = 4 << 20
	trimInterval = 20 * time.Second
)

// Keep runs a program and starts it again whenever it ends, until ctx does;
// then it kills it. started, which may be nil, is called with each new process;
// ended, likewise, with how it ended and the pause before the next start. next
// is asked for the program each time, so that it may differ; an error from it
// counts as an end.
func (g *Group) Keep(ctx context.Context, next func() (Spec, error), started func(*Process), ended func(err error, pause time.Duration)) {
	pause := firstPause
	for ctx.Err() == nil {
		begun := time.Now()
		err := g.runOnce(ctx, next, started)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > ranWell {
			pause = firstPause
		}
		if ended != nil {
			ended(err, pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

func (g *Group) runOnce(ctx context.Context, next func() (Spec, error), started func(*Process)) error {
	spec, err := next()
	if err != nil {
		return err
	}
	p, err := g.Start(spec)
	if err != nil {
		return err
	}
	if started != nil {
		started(p)
	}
	select {
	case <-p.Done:
		if p.Err() == nil {
			return errors.New("it ended by itself")
		}
		return p.Err()
	case <-ctx.Done():
		p.Kill()
		return ctx.Err()
	}
}

// TrimLogs keeps the logs of the group bounded, until ctx ends.
func (g *Group) TrimLogs(ctx context.Context) {
	tick := time.NewTicker(trimInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		entries, err := os.ReadDir(g.logs)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && info.Size() > maxLog {
				_ = trim(g.logs + "/" + entry.Name())
			}
		}
	}
}

// trim cuts a log to its end, in place: the program that writes it has it open,
// and appends.
func trim(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("trim a log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(-keptLog, io.SeekEnd); err != nil {
		return fmt.Errorf("trim a log: %w", err)
	}
	end, err := io.ReadAll(io.LimitReader(file, keptLog))
	if err != nil {
		return fmt.Errorf("trim a log: %w", err)
	}
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("trim a log: %w", err)
	}
	// Whatever the program appended in between stays in front; nothing reads
	// these lines by position.
	_, err = file.WriteAt(end, 0)
	return err
}
