package ollama

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"
)

// Progress is how far a Pull is.
type Progress struct {
	// Status is what the server does, in its words.
	Status string
	// Completed and Total are bytes, of the layers that were begun. A model's
	// data is one layer, the others are small.
	Completed, Total int64
	// Done says that the model is stored.
	Done bool
}

// Percent is between 0 and 100; 100 only when all is done, verified and stored.
func (p Progress) Percent() int {
	switch {
	case p.Done:
		return 100
	case p.Total <= 0 || p.Completed <= 0:
		return 0
	}
	return min(99, int(float64(p.Completed)/float64(p.Total)*100))
}

// Pull has the server fetch a model from the registry that the model's name
// says, and returns when it is stored. With insecure the registry speaks plain
// HTTP. progress is called from within Pull, often; it may be nil. A Pull that
// failed or was given up keeps what it fetched, and another goes on from there,
// unless the server was started anew in between: then only with OLLAMA_NOPRUNE.
func (c *Client) Pull(ctx context.Context, model string, insecure bool, progress func(Progress)) error {
	response, err := c.send(ctx, http.MethodPost, "/api/pull", map[string]any{"model": model, "insecure": insecure})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if progress == nil {
		progress = func(Progress) {}
	}
	err = readPull(response.Body, progress)
	return fromStream(ctx, err)
}

// pullLine is one line of the stream of a Pull.
type pullLine struct {
	Status    string `json:"status"`
	Digest    string `json:"digest"`
	Total     int64  `json:"total"`
	Completed int64  `json:"completed"`
}

// readPull adds up the layers of a Pull until it says success.
func readPull(body io.Reader, progress func(Progress)) error {
	layers := map[string]pullLine{}
	var now Progress
	err := lines(body, func(line pullLine) (bool, error) {
		known, seen := layers[line.Digest]
		if line.Digest != "" && (seen || len(layers) < maxLayers) {
			line.Total = min(max(0, line.Total), maxLayerBytes)
			line.Completed = min(max(0, line.Completed), line.Total)
			now.Total += line.Total - known.Total
			now.Completed += line.Completed - known.Completed
			layers[line.Digest] = line
		}
		now.Status, now.Done = tidy(line.Status), line.Status == "success"
		progress(now)
		return now.Done, nil
	})
	if err == nil && !now.Done {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Limits bound an answer. The time is bounded by the context.
type Limits struct {
	// Tokens is how many the model may generate; zero is the server's default,
	// which is no bound.
	Tokens int
	// Bytes is how much text is kept; zero means 64 KiB.
	Bytes int
}

const defaultAnswerBytes = 64 << 10

// Answer is what a model said.
type Answer struct {
	// Text is whole characters.
	Text string
	// Truncated says that the model had more to say: a limit or the context ended
	// it.
	Truncated bool
	// Tokens counts what the model generated: exactly in a whole answer, by the
	// pieces that arrived in one that was broken off.
	Tokens int
}

// Generate asks a stored model, which is loaded if it isn't yet, and returns its
// answer. If the context ends it, what was said until then is returned together
// with the error; the server stops generating.
func (c *Client) Generate(ctx context.Context, model, prompt string, limit Limits) (Answer, error) {
	if prompt == "" {
		return Answer{}, errors.New("an empty prompt asks nothing of a model")
	}
	request := map[string]any{"model": model, "prompt": prompt}
	if limit.Tokens > 0 {
		request["options"] = map[string]any{"num_predict": limit.Tokens}
	}
	response, err := c.send(ctx, http.MethodPost, "/api/generate", request)
	if err != nil {
		return Answer{}, err
	}
	// Closing it early is what tells the server to stop.
	defer response.Body.Close()
	bytes := limit.Bytes
	if bytes <= 0 {
		bytes = defaultAnswerBytes
	}
	answer, err := readAnswer(response.Body, bytes)
	return answer, fromStream(ctx, err)
}

// generateLine is one line of the stream of a Generate.
type generateLine struct {
	Response   string `json:"response"`
	Done       bool   `json:"done"`
	DoneReason string `json:"done_reason"`
	EvalCount  int    `json:"eval_count"`
}

// readAnswer gathers an answer of at most limit bytes.
func readAnswer(body io.Reader, limit int) (Answer, error) {
	var answer Answer
	var text []byte
	done := false
	err := lines(body, func(line generateLine) (bool, error) {
		if line.Response != "" {
			answer.Tokens++
		}
		text = append(text, line.Response...)
		if len(text) > limit {
			text = text[:limit]
			for len(text) > 0 && !utf8.Valid(text) {
				text = text[:len(text)-1]
			}
			answer.Truncated = true
			return true, nil
		}
		if line.Done {
			done = true
			answer.Tokens = line.EvalCount
			answer.Truncated = line.DoneReason == "length"
		}
		return line.Done, nil
	})
	answer.Text = string(text)
	if err == nil && !done && !answer.Truncated {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		answer.Truncated = true
	}
	return answer, err
}

// lines decodes each line of a stream and gives it to take, until take is done
// or the stream ends. A failure arrives as a line too, since the status was sent
// before it happened.
func lines[Line any](body io.Reader, take func(Line) (done bool, err error)) error {
	scanner := bufio.NewScanner(body)
	scanner.Buffer(make([]byte, 0, 16<<10), maxLineBytes)
	for scanner.Scan() {
		if len(scanner.Bytes()) == 0 {
			continue
		}
		var failure struct {
			Error string `json:"error"`
		}
		var line Line
		if err := json.Unmarshal(scanner.Bytes(), &failure); err != nil {
			return &Error{Kind: ErrServer, Said: fmt.Sprintf("a line that is no JSON: %v", err)}
		}
		if failure.Error != "" {
			kind := classify(failure.Error)
			if kind == nil {
				kind = ErrServer
			}
			return &Error{Kind: kind, Said: tidy(failure.Error)}
		}
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return &Error{Kind: ErrServer, Said: fmt.Sprintf("a line that isn't understood: %v", err)}
		}
		if done, err := take(line); done || err != nil {
			return err
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return &Error{Kind: ErrServer, Said: fmt.Sprintf("a line of more than %d bytes", maxLineBytes)}
	}
	return scanner.Err()
}

// fromStream is the error of a stream for the caller: one that the server told
// of, or that it broke off.
func fromStream(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if told := (*Error)(nil); errors.As(err, &told) {
		return err
	}
	return unreachable(ctx, err)
}
