package latency

// Verdict is what becomes of a request that arrives.
type Verdict int

// A request runs at once, waits for its turn, or finds the queue full.
const (
	Run Verdict = iota
	Wait
	Reject
)

// Seat is a request's place in a batch or in the queue before it. Adapter is
// the LoRA adapter that it needs, or empty.
type Seat struct {
	Adapter string
	// Admitted is called, from within Leave, when a waiting seat gets to run.
	Admitted func()

	waiting bool
}

// Batch decides which requests run: at most Limit at once, with at most
// Adapters different LoRA adapters among them, and at most Queue more that
// wait. Among those that could run, who came first goes first.
type Batch struct {
	Limit    int
	Queue    int
	Adapters int

	running  int
	waiting  []*Seat
	adapters map[string]int // running requests of each adapter
}

// Arrive takes a request in, or rejects it when the queue is full.
func (b *Batch) Arrive(seat *Seat) Verdict {
	if b.fits(seat) {
		b.start(seat)
		return Run
	}
	if len(b.waiting) >= b.Queue {
		return Reject
	}
	seat.waiting = true
	b.waiting = append(b.waiting, seat)
	return Wait
}

// Leave ends a seat that runs or waits, and lets those in who fit now. It must
// be called once for each seat that Arrive did not reject.
func (b *Batch) Leave(seat *Seat) {
	if seat.waiting {
		for i, other := range b.waiting {
			if other == seat {
				b.remove(i)
				break
			}
		}
		seat.waiting = false
		return
	}
	b.running--
	if seat.Adapter != "" {
		if b.adapters[seat.Adapter]--; b.adapters[seat.Adapter] == 0 {
			delete(b.adapters, seat.Adapter)
		}
	}
	for i := 0; i < len(b.waiting) && b.running < b.Limit; {
		next := b.waiting[i]
		if !b.fits(next) {
			i++
			continue
		}
		b.remove(i)
		next.waiting = false
		b.start(next)
		if next.Admitted != nil {
			next.Admitted()
		}
	}
}

// Running returns how many requests run.
func (b *Batch) Running() int { return b.running }

// Waiting returns how many requests wait.
func (b *Batch) Waiting() int { return len(b.waiting) }

// RunningAdapters returns how many requests of each adapter run. The map is
// the batch's own: read it before the next call.
func (b *Batch) RunningAdapters() map[string]int { return b.adapters }

// WaitingAdapters returns how many requests of each adapter wait.
func (b *Batch) WaitingAdapters() map[string]int {
	counts := map[string]int{}
	for _, seat := range b.waiting {
		if seat.Adapter != "" {
			counts[seat.Adapter]++
		}
	}
	return counts
}

func (b *Batch) fits(seat *Seat) bool {
	if b.running >= b.Limit {
		return false
	}
	return seat.Adapter == "" || b.adapters[seat.Adapter] > 0 || len(b.adapters) < b.Adapters
}

func (b *Batch) start(seat *Seat) {
	b.running++
	if seat.Adapter != "" {
		if b.adapters == nil {
			b.adapters = map[string]int{}
		}
		b.adapters[seat.Adapter]++
	}
}

func (b *Batch) remove(i int) {
	copy(b.waiting[i:], b.waiting[i+1:])
	b.waiting[len(b.waiting)-1] = nil
	b.waiting = b.waiting[:len(b.waiting)-1]
}
