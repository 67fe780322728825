package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Error is what an API server answers in place of a result. Code is the HTTP
// status, as vLLM writes it.
type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// Error returns the message, as a user reads it.
func (e *Error) Error() string { return e.Message }

// Errorf makes an error of an HTTP status; its type follows from the status.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{Message: fmt.Sprintf(format, args...), Type: errorType(status), Code: status}
}

// errorType names a status as vLLM does.
func errorType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "AuthenticationError"
	case status == http.StatusNotFound:
		return "NotFoundError"
	case status == http.StatusTooManyRequests:
		return "RateLimitError"
	case status >= http.StatusInternalServerError:
		return "InternalServerError"
	}
	return "BadRequestError"
}

// envelope is the object around an error on the wire.
type envelope struct {
	Error *Error `json:"error"`
}

// Encode returns the error as a JSON body.
func (e *Error) Encode() []byte {
	data, err := json.Marshal(envelope{Error: e})
	if err != nil { // A struct of strings and numbers always encodes.
		panic(err)
	}
	return data
}

// DecodeError reads the error in an answer's body. A body in another shape
// gives an error that holds the status and the body's first 200 bytes.
func DecodeError(status int, body []byte) *Error {
	var wire struct {
		Error *struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &wire); err == nil && wire.Error != nil && wire.Error.Message != "" {
		return &Error{Message: wire.Error.Message, Type: wire.Error.Type, Param: wire.Error.Param, Code: status}
	}
	if len(body) > 200 {
		body = body[:200]
	}
	return Errorf(status, "HTTP %d: %s", status, body)
}
