package proxy

import (
	"io"
	"strconv"
	"sync"
	"time"
)

// maxPending bounds the lines that wait to be written, in bytes. What comes
// beyond it while the file is stuck is dropped and counted.
const maxPending = 1 << 20

// AccessLog writes lines to a file without holding up the requests.
type AccessLog struct {
	file    io.Writer
	mutex   sync.Mutex
	pending []byte
	dropped int
	wake    chan struct{}
	stopped chan struct{}
}

// NewAccessLog begins to write to a file. Close writes what is left.
func NewAccessLog(file io.Writer) *AccessLog {
	log := &AccessLog{file: file, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	go log.run()
	return log
}

func (l *AccessLog) run() {
	defer close(l.stopped)
	var spare []byte
	for range l.wake {
		l.mutex.Lock()
		lines := l.pending
		l.pending = spare[:0]
		l.mutex.Unlock()
		_, _ = l.file.Write(lines)
		spare = lines
	}
}

// Close writes what is pending and ends.
func (l *AccessLog) Close() {
	l.mutex.Lock()
	wake := l.wake
	l.mutex.Unlock()
	select {
	case wake <- struct{}{}:
	default:
	}
	close(wake)
	<-l.stopped
}

func (l *AccessLog) write(line []byte) {
	l.mutex.Lock()
	if len(l.pending)+len(line) > maxPending {
		l.dropped++
		l.mutex.Unlock()
		return
	}
	l.pending = append(l.pending, line...)
	l.mutex.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// line is a request in Envoy's default format.
func (x *exchange) line(into []byte, end time.Time) []byte {
	r := x.r
	into = append(into, '[')
	into = x.start.UTC().AppendFormat(into, "2006-01-02T15:04:05.000Z")
	into = append(into, `] "`...)
	into = append(into, r.Method...)
	into = append(into, ' ')
	into = append(into, x.originalPath...)
	into = append(into, ' ')
	if r.ProtoMajor == 2 {
		into = append(into, "HTTP/2"...)
	} else {
		into = append(into, r.Proto...)
	}
	into = append(into, `" `...)
	into = strconv.AppendInt(into, int64(x.status), 10)
	into = append(into, ' ')
	into = append(into, orDash(x.flags)...)
	for _, n := range []int64{x.body.count.Load(), x.sent, end.Sub(x.start).Milliseconds()} {
		into = append(into, ' ')
		into = strconv.AppendInt(into, n, 10)
	}
	into = append(into, ' ')
	into = append(into, orDash(x.serviceTime)...)
	for _, text := range []string{x.header.Get("X-Forwarded-For"), x.header.Get("User-Agent"), x.header.Get("X-Request-Id"), r.Host, x.upstreamHost} {
		into = append(into, ' ', '"')
		into = append(into, orDash(text)...)
		into = append(into, '"')
	}
	return append(into, '\n')
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
