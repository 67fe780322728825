package ollama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// The kinds of failure. Compare with errors.Is.
var (
	// ErrModelNotFound: neither the server nor the registry has the model. Final,
	// until somebody names another.
	ErrModelNotFound = errors.New("there is no such model")
	// ErrRefused: the name isn't one, the registry wants credentials, or the model
	// a newer Ollama. Final, until something is changed.
	ErrRefused = errors.New("the model is refused")
	// ErrRegistry: the registry failed, can't be reached or sent damaged data.
	// Trying again may help, and goes on where the last Pull ended.
	ErrRegistry = errors.New("the registry doesn't serve the model")
	// ErrNoSpace: the server's storage is full. Final, until it grows.
	ErrNoSpace = errors.New("there is no space for the model")
	// ErrStorage: the server stumbles over the rest of a Pull that found no space.
	// Final, until a start without OLLAMA_NOPRUNE removes the rest, or somebody
	// removes the files blobs/*-partial* in its storage.
	ErrStorage = errors.New("the storage holds the rest of a pull that the server can't read")
	// ErrNoMemory: the model doesn't fit into memory. Final, until there is more.
	ErrNoMemory = errors.New("there is not enough memory for the model")
	// ErrUnreachable: the server itself doesn't answer, or broke off. It starts, is
	// gone or is cut off; trying again may help.
	ErrUnreachable = errors.New("the Ollama server doesn't answer")
	// ErrServer: the server failed in another way. Trying again may help.
	ErrServer = errors.New("the Ollama server failed")
)

// maxSaid bounds what an Error quotes, in bytes.
const maxSaid = 300

// Error is a failure of the server, or of the way to it.
type Error struct {
	// Kind is one of the errors above.
	Kind error
	// Said is what the server said, in one line and without what changes from one
	// try to the next (ports of outgoing connections).
	Said string
}

// Error says what is wrong, and what was said.
func (e *Error) Error() string {
	if e.Said == "" {
		return e.Kind.Error()
	}
	return fmt.Sprintf("%v: %s", e.Kind, e.Said)
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// unreachable is the error for a request that got no whole answer. An end that
// the caller set stays what it is.
func unreachable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("waiting for Ollama ended: %w", cause)
	}
	// An injected client may have a timeout of its own.
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return &Error{Kind: ErrUnreachable, Said: "no answer in time"}
	}
	if inner := (*url.Error)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	return &Error{Kind: ErrUnreachable, Said: tidy(err.Error())}
}

// refused is the error for an answer that isn't 200.
func refused(path string, status int, body []byte) error {
	var answer struct {
		Error string `json:"error"`
	}
	text := string(body)
	if json.Unmarshal(body, &answer) == nil && answer.Error != "" {
		text = answer.Error
	}
	kind := ErrServer
	switch said := classify(text); {
	case said != nil:
		kind = said
	case status == http.StatusNotFound && answer.Error != "":
		kind = ErrModelNotFound
	case status == http.StatusNotFound:
		// A page that isn't there: this is no Ollama, or another version.
		return &Error{Kind: ErrServer, Said: "it has no " + path}
	case status == http.StatusBadRequest || status == http.StatusForbidden:
		kind = ErrRefused
	case status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		kind = ErrUnreachable
	}
	if text == "" {
		text = fmt.Sprintf("status %d", status)
	}
	return &Error{Kind: kind, Said: tidy(text)}
}

// sayings tell a kind of failure from what the server says of it. The first
// that fits counts. The tests make the real server say all but those of quotas,
// of GPUs and of what the system kills.
var sayings = []struct {
	kind error
	text *regexp.Regexp
}{
	{ErrNoSpace, regexp.MustCompile(`no space left on device|disk quota exceeded`)},
	{ErrNoMemory, regexp.MustCompile(`requires more system memory|(?i)out of memory|signal: killed`)},
	{ErrModelNotFound, regexp.MustCompile(`^pull model manifest: file does not exist$|^model .* not found`)},
	// Before the next, because the registry's 4xx come with this prefix too.
	{ErrRegistry, regexp.MustCompile(`^(pull model manifest: )?(408|429|5\d\d): `)},
	{ErrRefused, regexp.MustCompile(`^(pull model manifest: )?(4\d\d: |unauthorized|Get "\S*\bnonce=)|^invalid model name|^insecure protocol|^(source|destination|name) .* is invalid`)},
	{ErrStorage, regexp.MustCompile(`^EOF$`)},
	{ErrRegistry, regexp.MustCompile(`^pull model manifest: |max retries exceeded|digest mismatch|^file does not exist$|unexpected status code|(Get|Head) "?https?://|context deadline exceeded|connection re(fused|set)|unexpected EOF|http: no Location header`)},
}

// classify returns the kind of failure that a text of the server tells of, or
// nil.
func classify(text string) error {
	for _, saying := range sayings {
		if saying.text.MatchString(text) {
			return saying.kind
		}
	}
	return nil
}

// changing is what differs from one try to the next: the near end of a
// connection, as Go's network errors name it, and the query of Ollama's request
// for a token.
var changing = regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+|\[[0-9a-fA-F:]+\]):\d+->|\?nonce=[^"\s]*`)

// tidy makes a text a line of bounded length that the same failure gives again.
func tidy(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	text = changing.ReplaceAllString(text, "")
	if len(text) <= maxSaid {
		return text
	}
	return strings.ToValidUTF8(text[:maxSaid], "") + " …"
}
