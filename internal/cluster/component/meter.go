package component

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// lineInterval bounds how often a progress line is written where there is no
// terminal; a log that is read later needs no more.
const lineInterval = 10 * time.Second

// drawInterval bounds how often the bar on a terminal is drawn.
const drawInterval = 200 * time.Millisecond

// meter shows how far a compile has come: a bar drawn in place on a terminal,
// a line now and then elsewhere.
type meter struct {
	out      io.Writer
	what     string
	terminal bool
	now      func() time.Time

	mu    sync.Mutex
	begun time.Time
	shown time.Time
	done  int
	total int
}

func newMeter(out io.Writer, what string) *meter {
	m := &meter{out: out, what: what, terminal: isTerminal(out), now: time.Now}
	m.begun = m.now()
	return m
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

func (m *meter) start(total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total = total
	m.shown = m.now()
	m.write(fmt.Sprintf("compiling %s from source, %d packages (once; kept in the cache)", m.what, total), "\n")
}

func (m *meter) download(module string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.show("downloading " + module)
}

func (m *meter) compiled(pkg string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done++
	if m.done > m.total {
		m.total = m.done
	}
	if m.done == m.total {
		m.show("linking")
		return
	}
	m.show(pkg)
}

// finish writes the last line, with the time that was spent in seconds.
func (m *meter) finish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write(fmt.Sprintf("compiled %s in %s", m.what, m.now().Sub(m.begun).Round(time.Second)), "\n")
}

// show draws the state, at a bounded rate.
func (m *meter) show(doing string) {
	interval := lineInterval
	if m.terminal {
		interval = drawInterval
	}
	if m.now().Sub(m.shown) < interval && doing != "linking" {
		return
	}
	m.shown = m.now()
	percent := 0
	if m.total > 0 {
		percent = 100 * m.done / m.total
	}
	if !m.terminal {
		m.write(fmt.Sprintf("compiling %s: %d%% (%d of %d packages)", m.what, percent, m.done, m.total), "\n")
		return
	}
	const width = 24
	bar := strings.Repeat("█", width*percent/100) + strings.Repeat("░", width-width*percent/100)
	if len(doing) > 40 {
		doing = "…" + doing[len(doing)-39:]
	}
	m.write(fmt.Sprintf("%s %s %3d%% %s", m.what, bar, percent, doing), "")
}

func (m *meter) write(line, end string) {
	if m.terminal {
		line = "\r\x1b[K" + line
	}
	fmt.Fprint(m.out, line+end)
}
