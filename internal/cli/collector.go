package cli

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Pace of the garbage collector. An operator waits most of the time, and its memory
// is the cluster's: a heap that has grown large is collected before it has grown by
// much more. A small one may double first, since collecting it all the time took a
// third of the processor time that the operator used.
const (
	// smallMemory is what the operator may use without being sparing, in bytes.
	smallMemory = 112 << 20
	// growth is by how much what is live may grow beyond that, in percent.
	growth = 30
	// besideHeap is what Go needs for stacks and its own records, in bytes.
	besideHeap = 20 << 20
	// paceInterval is between looks at what is live. One that comes late costs a few
	// collections too many.
	paceInterval = time.Second
)

// paceCollector keeps the collector's limit by what is live until the context ends,
// unless the environment sets its pace (GOGC, GOMEMLIMIT).
func paceCollector(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(limitFor(0))
	go func() {
		tick := time.NewTicker(paceInterval)
		defer tick.Stop()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				metrics.Read(live)
				debug.SetMemoryLimit(limitFor(live[0].Value.Uint64()))
			}
		}
	}()
}

// limitFor is the memory, in bytes, to which the collector keeps a heap of which so
// many bytes are live. It is never less than the heap needs: the collector would
// do nothing else.
func limitFor(live uint64) int64 {
	return max(smallMemory, int64(live+live*growth/100)+besideHeap) //nolint:gosec // a machine's memory
}
