package cli

import "testing"

func TestLimitFor(t *testing.T) {
	for live, want := range map[uint64]int64{
		0:           smallMemory,
		40 << 20:    smallMemory,
		100 << 20:   150 << 20,
		1000 << 20:  1320 << 20,
		10000 << 20: 13020 << 20,
	} {
		if got := limitFor(live); got != want {
			t.Errorf("%d MiB: %d MiB, want %d", live>>20, got>>20, want>>20)
		}
	}
}
