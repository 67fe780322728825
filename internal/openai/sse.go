package openai

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Done is the data of the event that ends a stream.
const Done = "[DONE]"

// MaxEvent is the most bytes that a Reader takes for one event: an answer's
// chunk is a few hundred bytes, one with tool calls a few thousand.
const MaxEvent = 1 << 20

// ErrEventTooLarge tells of an event longer than MaxEvent.
var ErrEventTooLarge = errors.New("a server-sent event is larger than 1 MiB")

// AppendEvent appends an event with the data to dst. Data with line ends
// becomes several data lines, as the HTML standard's section on server-sent
// events asks.
func AppendEvent(dst, data []byte) []byte {
	for {
		line, rest, more := cutLine(data)
		dst = append(dst, "data: "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if !more {
			return append(dst, '\n')
		}
		data = rest
	}
}

// cutLine splits at the first \n, \r or \r\n.
func cutLine(data []byte) (line, rest []byte, more bool) {
	at := bytes.IndexAny(data, "\r\n")
	if at < 0 {
		return data, nil, false
	}
	rest = data[at+1:]
	if data[at] == '\r' && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	return data[:at], rest, true
}

// EventReader reads the data of server-sent events from a stream.
type EventReader struct {
	in   *bufio.Reader
	data []byte
	line []byte
	cr   bool // the last line ended with \r: a \n that follows belongs to it
}

// NewEventReader reads events from in.
func NewEventReader(in io.Reader) *EventReader {
	return &EventReader{in: bufio.NewReader(in)}
}

// Next returns the data of the next event, valid until the next call, and
// io.EOF at the stream's end. As the standard asks, an event that the stream's
// end cuts off is dropped, and so are comments and fields other than data.
// It returns ErrEventTooLarge for an event longer than MaxEvent.
func (r *EventReader) Next() ([]byte, error) {
	r.data = r.data[:0]
	seen := false
	for {
		line, err := r.readLine()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if seen {
				return r.data, nil
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "data" {
			continue
		}
		if seen {
			r.data = append(r.data, '\n')
		}
		seen = true
		r.data = append(r.data, bytes.TrimPrefix(value, []byte(" "))...)
		if len(r.data) > MaxEvent {
			return nil, ErrEventTooLarge
		}
	}
}

// readLine returns a line without its end, which may be \n, \r or \r\n.
func (r *EventReader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil, io.EOF
			}
			return nil, fmt.Errorf("read the event stream: %w", err)
		}
		afterCR := r.cr
		r.cr = b == '\r'
		switch {
		case b == '\n' && afterCR:
			continue
		case b == '\n', b == '\r':
			return r.line, nil
		}
		if len(r.line) == MaxEvent {
			return nil, ErrEventTooLarge
		}
		r.line = append(r.line, b)
	}
}
