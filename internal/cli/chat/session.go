package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/slipway-dev/slipway/internal/openai"
)

// Bounds of a session's memory. The model's own limit is mostly smaller; what
// it refuses for its length is shortened further.
const (
	maxTurns = 64
	maxLine  = 256 << 10
)

// Session is a conversation with a model, or a single question to one.
type Session struct {
	// Connect opens a connection; it is called again when one breaks.
	Connect func(context.Context) (*Client, error)
	// MaxTokens bounds each answer; 0 sets no limit.
	MaxTokens int64
	// Out gets the model's words, each as it arrives; Err gets notices.
	Out, Err io.Writer

	client *Client
	model  string
	turns  []openai.Message
}

// Ask sends one message and shows the answer, with a line end behind it.
func (s *Session) Ask(ctx context.Context, message string) error {
	defer s.disconnect()
	return s.turn(ctx, message)
}

// Converse reads messages from in, a line each, and answers them until in or
// the context ends. Prompt is shown before each, on Err; pass "" where nobody
// types. A refusal is shown and the session goes on; it ends with an error when
// the model can't be reached.
func (s *Session) Converse(ctx context.Context, in io.Reader, prompt string) error {
	defer s.disconnect()
	lines := readLines(ctx, in)
	for {
		fmt.Fprint(s.Err, prompt)
		var line line
		select {
		case <-ctx.Done():
			return nil
		case line = <-lines:
		}
		if line.err != nil {
			if prompt != "" {
				fmt.Fprintln(s.Err)
			}
			if errors.Is(line.err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read a message: %w", line.err)
		}
		message := strings.TrimSpace(line.text)
		if message == "" {
			continue
		}
		err := s.turn(ctx, message)
		var refusal *openai.Error
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refusal):
			fmt.Fprintf(s.Err, "error: %s\n", refusal.Message)
		case err != nil:
			return err
		}
	}
}

// line is what was read: a text, or why there is none.
type line struct {
	text string
	err  error
}

// readLines reads in the background, so that a signal ends a session that
// waits for its user. The goroutine ends with in or, at its next line, with the
// context.
func readLines(ctx context.Context, in io.Reader) <-chan line {
	lines := make(chan line)
	go func() {
		scanner := bufio.NewScanner(in)
		scanner.Buffer(nil, maxLine)
		next := func() line {
			switch {
			case scanner.Scan():
				return line{text: scanner.Text()}
			case scanner.Err() != nil:
				return line{err: scanner.Err()}
			}
			return line{err: io.EOF}
		}
		for {
			read := next()
			select {
			case lines <- read:
			case <-ctx.Done():
				return
			}
			if read.err != nil {
				return
			}
		}
	}()
	return lines
}

// turn says one message and keeps it with its answer. A message without an
// answer is forgotten, so that it can be said again.
func (s *Session) turn(ctx context.Context, message string) error {
	before := len(s.turns)
	s.turns = append(s.turns, openai.Message{Role: "user", Content: openai.Content(message)})
	answer, err := s.answer(ctx)
	if answer != "" {
		fmt.Fprintln(s.Out)
	}
	if err != nil {
		s.turns = s.turns[:min(before, len(s.turns))]
		return err
	}
	s.turns = append(s.turns, openai.Message{Role: "assistant", Content: openai.Content(answer)})
	s.forget(len(s.turns) - maxTurns)
	return nil
}

// answer asks for the next turn. It forgets the oldest turns as long as the
// model says that the conversation is too long for it, and connects again, once,
// when the connection broke before the first word.
func (s *Session) answer(ctx context.Context) (string, error) {
	for reconnected := false; ; {
		if err := s.connect(ctx); err != nil {
			return "", err
		}
		text, err := s.say(ctx)
		var refusal *openai.Error
		switch {
		case err == nil || text != "" || ctx.Err() != nil:
			return text, err
		case errors.As(err, &refusal):
			if !tooLong(refusal) || len(s.turns) <= 2 {
				return "", err
			}
			s.forget(2)
		case reconnected:
			return "", err
		default:
			reconnected = true
			s.disconnect()
		}
	}
}

// say asks once, and shows the words as they come.
func (s *Session) say(ctx context.Context) (string, error) {
	request := openai.ChatRequest{Model: s.model, Messages: s.turns}
	if s.MaxTokens > 0 {
		request.MaxTokens = &s.MaxTokens
	}
	var text strings.Builder
	_, err := s.client.Answer(ctx, request, func(piece string) error {
		text.WriteString(piece)
		_, err := io.WriteString(s.Out, piece)
		return err
	})
	return text.String(), err
}

// tooLong tells that a refusal is for the conversation's length, in vLLM's and
// in OpenAI's words.
func tooLong(refusal *openai.Error) bool {
	return refusal.Code == http.StatusBadRequest && strings.Contains(refusal.Message, "maximum context length")
}

// forget drops the n oldest messages; a conversation starts with its user.
func (s *Session) forget(n int) {
	if n <= 0 {
		return
	}
	n += n % 2
	s.turns = append(s.turns[:0], s.turns[min(n, len(s.turns)):]...)
}

// connect makes sure that there is a connection and that the model's name is
// known.
func (s *Session) connect(ctx context.Context) error {
	if s.client != nil {
		return nil
	}
	client, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	model, err := client.Model(ctx)
	if err != nil {
		client.Close()
		return err
	}
	s.client, s.model = client, model
	return nil
}

func (s *Session) disconnect() {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}
