package openai

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// ChunkWriter builds the events of one streamed answer in a buffer that its
// owner writes out and resets. What the events of an answer share is encoded
// once, and a token costs no allocation.
type ChunkWriter struct {
	// Buf holds the events that are not written out yet.
	Buf []byte

	chat bool
	head []byte // of every event: data: {"id":…,"model":…,"choices":[
}

// Start begins an answer. The buffers of the one before are used again.
func (c *ChunkWriter) Start(chat bool, id, model string, created int64) {
	c.chat = chat
	object := ObjectCompletion
	if chat {
		object = ObjectChatChunk
	}
	head := append(c.head[:0], `data: {"id":`...)
	head = AppendString(head, id)
	head = append(head, `,"object":"`...)
	head = append(head, object...)
	head = append(head, `","created":`...)
	head = strconv.AppendInt(head, created, 10)
	head = append(head, `,"model":`...)
	head = AppendString(head, model)
	c.head = append(head, `,"choices":[`...)
	c.Buf = c.Buf[:0]
}

// Role adds the first event of a chat's choice, which names who speaks. It
// adds nothing to a text completion.
func (c *ChunkWriter) Role(choice int) {
	if c.chat {
		c.open(choice)
		c.Buf = append(c.Buf, `"delta":{"role":"assistant"}`...)
		c.close("")
	}
}

// Token adds an event with a piece of text.
func (c *ChunkWriter) Token(choice int, text string) {
	c.open(choice)
	if c.chat {
		c.Buf = append(c.Buf, `"delta":{"content":`...)
		c.Buf = AppendString(c.Buf, text)
		c.Buf = append(c.Buf, '}')
	} else {
		c.text(text)
	}
	c.close("")
}

// Call adds an event with a piece of a tool call. An error means that the call
// can't be encoded.
func (c *ChunkWriter) Call(choice int, call ToolCall) error {
	data, err := json.Marshal(Delta{ToolCalls: []ToolCall{call}})
	if err != nil {
		return err
	}
	c.open(choice)
	c.Buf = append(c.Buf, `"delta":`...)
	c.Buf = append(c.Buf, data...)
	c.close("")
	return nil
}

// Finish adds the last event of a choice.
func (c *ChunkWriter) Finish(choice int, reason string) {
	c.open(choice)
	if c.chat {
		c.Buf = append(c.Buf, `"delta":{}`...)
	} else {
		c.text("")
	}
	c.close(reason)
}

// Usage adds the event without a choice that carries the usage.
func (c *ChunkWriter) Usage(usage Usage) {
	c.Buf = append(c.Buf, c.head...)
	c.Buf = append(c.Buf, `],"usage":`...)
	data, err := json.Marshal(usage)
	if err != nil { // A struct of numbers always encodes.
		panic(err)
	}
	c.Buf = append(c.Buf, data...)
	c.Buf = append(c.Buf, "}\n\n"...)
}

// Error adds an event with an error, for a fault after the first token.
func (c *ChunkWriter) Error(fault *Error) { c.Buf = AppendEvent(c.Buf, fault.Encode()) }

// Done adds the event that ends the stream.
func (c *ChunkWriter) Done() { c.Buf = append(c.Buf, "data: [DONE]\n\n"...) }

func (c *ChunkWriter) open(choice int) {
	c.Buf = append(c.Buf, c.head...)
	c.Buf = append(c.Buf, `{"index":`...)
	c.Buf = strconv.AppendInt(c.Buf, int64(choice), 10)
	c.Buf = append(c.Buf, ',')
}

func (c *ChunkWriter) text(text string) {
	c.Buf = append(c.Buf, `"text":`...)
	c.Buf = AppendString(c.Buf, text)
	c.Buf = append(c.Buf, `,"logprobs":null`...)
}

func (c *ChunkWriter) close(reason string) {
	c.Buf = append(c.Buf, `,"finish_reason":`...)
	if reason == "" {
		c.Buf = append(c.Buf, "null"...)
	} else {
		c.Buf = AppendString(c.Buf, reason)
	}
	c.Buf = append(c.Buf, "}],\"usage\":null}\n\n"...)
}

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD, and U+2028 and U+2029 are escaped, as encoding/json does.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if (r == utf8.RuneError && size == 1) || r == '\u2028' || r == '\u2029' {
				dst = append(dst, s[start:i]...)
				dst = append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
				start = i + size
			}
			i += size
			continue
		}
		if b >= ' ' && b != '"' && b != '\\' && b != 0x7f {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
