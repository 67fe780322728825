package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Bounds of the load.
const (
	maxInFlight    = 1000
	requestTimeout = 15 * time.Second
	calmTimeout    = 30 * time.Second
	maxAnswer      = 1 << 20
	maxFailures    = 5000
)

// Failure is a request that wasn't answered as it should be.
type Failure struct {
	// At is when the request was sent, Took how long it was until it failed, both
	// in milliseconds; At counts from the window's begin.
	At   int64 `json:"at"`
	Took int64 `json:"took"`
	// Why is the class: a status, or how the connection ended.
	Why string `json:"why"`
	// Kept tells whether the connection had served a request before.
	Kept bool `json:"kept"`
	// Text is the begin of the answer's body, or the error.
	Text string `json:"text"`
}

// Window is all requests that were sent between two looks at it.
type Window struct {
	Sent     int       `json:"sent"`
	Failures []Failure `json:"failures"`
	// By are the answers by the pod that gave them.
	By map[string]int `json:"by"`
	// Slowest is in milliseconds.
	Slowest int64 `json:"slowest"`

	begin time.Time
	open  sync.WaitGroup
	mu    sync.Mutex
}

// generator sends requests at an even rate, whether or not those before were
// answered: an open loop.
type generator struct {
	url    string
	client *http.Client
	sent   int
	slots  chan struct{}

	mu     sync.Mutex
	window *Window
	// row is how many answers in a row were good; calmed gets a value at each.
	row    int
	calmed chan struct{}
}

// load sends chat completions at a rate until ctx ends. At an address it serves
// the window since the last look at it, once all is calm again and all of the
// window's requests have ended.
func load(ctx context.Context, address, url, perSecond string) error {
	rate, err := strconv.Atoi(perSecond)
	if err != nil || rate < 1 || rate > 1000 {
		return fmt.Errorf("the rate is %q; write a number from 1 to 1000", perSecond)
	}
	g := &generator{
		url: url, slots: make(chan struct{}, maxInFlight), calmed: make(chan struct{}, 1),
		client: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: maxInFlight}},
	}
	g.next()
	go g.run(ctx, time.Second/time.Duration(rate))
	return listen(ctx, address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.calm(r.Context(), rate); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		window := g.next()
		window.open.Wait()
		window.mu.Lock()
		defer window.mu.Unlock()
		_ = json.NewEncoder(w).Encode(window)
	}))
}

// next begins a window and returns the one before.
func (g *generator) next() *Window {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.window
	g.window = &Window{By: map[string]int{}, Failures: []Failure{}, begin: time.Now()}
	return before
}

// calm waits until so many answers in a row were good, counted from now.
func (g *generator) calm(ctx context.Context, answers int) error {
	ctx, cancel := context.WithTimeout(ctx, calmTimeout)
	defer cancel()
	g.mu.Lock()
	g.row = 0
	g.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no %d answers in a row were good within %v", answers, calmTimeout)
		case <-g.calmed:
		}
		g.mu.Lock()
		row := g.row
		g.mu.Unlock()
		if row >= answers {
			return nil
		}
	}
}

// answered counts good answers in a row.
func (g *generator) answered(good bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !good {
		g.row = 0
		return
	}
	g.row++
	select {
	case g.calmed <- struct{}{}:
	default: // it has yet to look at the one before
	}
}

func (g *generator) run(ctx context.Context, every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		g.mu.Lock()
		window := g.window
		window.open.Add(1)
		g.mu.Unlock()
		g.sent++
		number := g.sent
		select {
		case g.slots <- struct{}{}:
		default:
			window.note(time.Now(), "", &Failure{Why: "not sent", Text: "too many in flight"})
			window.open.Done()
			continue
		}
		go func() {
			defer window.open.Done()
			defer func() { <-g.slots }()
			begin := time.Now()
			by, failure := g.ask(ctx, number)
			window.note(begin, by, failure)
			g.answered(failure == nil)
		}()
	}
}

func (w *Window) note(begin time.Time, by string, failure *Failure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Sent++
	took := time.Since(begin).Milliseconds()
	w.Slowest = max(w.Slowest, took)
	if failure == nil {
		w.By[by]++
		return
	}
	failure.At, failure.Took = begin.Sub(w.begin).Milliseconds(), took
	if len(w.Failures) < maxFailures {
		w.Failures = append(w.Failures, *failure)
	}
}

// ask sends one request, every other one as a stream. No two have a prompt in
// common, so that no pod's cache draws them all.
func (g *generator) ask(ctx context.Context, number int) (by string, failure *Failure) {
	kept := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { kept = info.Reused }})
	stream := number%2 == 0
	body := fmt.Sprintf(`{"model": "random", "max_tokens": 8, "ignore_eos": true, "stream": %t, "messages": [{"role": "user", "content": "%d"}]}`, stream, number)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, strings.NewReader(body))
	if err != nil {
		return "", &Failure{Why: "no request", Text: err.Error()}
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := g.client.Do(request)
	if err != nil {
		return "", &Failure{Why: classOf(err), Kept: kept, Text: err.Error()}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return "", &Failure{Why: "cut short", Kept: kept, Text: err.Error()}
	case response.StatusCode != http.StatusOK:
		return "", &Failure{Why: "status " + strconv.Itoa(response.StatusCode), Kept: kept, Text: string(text[:min(len(text), 200)])}
	case stream && !strings.HasSuffix(strings.TrimSpace(string(text)), "data: [DONE]"):
		return "", &Failure{Why: "cut short", Kept: kept, Text: "the stream has no [DONE]"}
	case !stream && !strings.Contains(string(text), `"completion_tokens":8`):
		return "", &Failure{Why: "incomplete", Kept: kept, Text: string(text[:min(len(text), 200)])}
	}
	return response.Header.Get("X-Inference-Pod"), nil
}

// classOf tells how a connection failed.
func classOf(err error) string {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed without an answer"
	default:
		return "no connection"
	}
}

// post sends a body and prints the status, then each line of the answer with the
// milliseconds since the request was sent.
func post(ctx context.Context, url, body string) error {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	begin := time.Now()
	client := http.Client{Timeout: requestTimeout}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	fmt.Println(response.StatusCode, response.Header.Get("Content-Type"))
	lines := bufio.NewScanner(io.LimitReader(response.Body, maxAnswer))
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		if lines.Text() != "" {
			fmt.Fprintf(os.Stdout, "%d %s\n", time.Since(begin).Milliseconds(), lines.Text())
		}
	}
	return lines.Err()
}
