package bootstrap

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Error says which field of a bootstrap is at fault, and why, in one line.
type Error struct {
	// Path names the field as Envoy's documents do, from the top.
	Path string
	// Fault says what is wrong with it.
	Fault string
}

// Error is "PATH: FAULT".
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Fault
	}
	return e.Path + ": " + e.Fault
}

func fault(path, format string, values ...any) error {
	return &Error{path, fmt.Sprintf(format, values...)}
}

func unsupported(path, what string) error {
	return fault(path, "the stand-in doesn't honour %s; remove it, or run Envoy itself", what)
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func index(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}

// violation is what the generated validators return: a field by its Go name, and
// either a reason or the violation further down that caused it.
type violation interface {
	Field() string
	Reason() string
	Cause() error
}

// validate calls the generated ValidateAll and turns the first violation into a
// path with a fault.
func validate(message any, path string) error {
	validator, ok := message.(interface{ ValidateAll() error })
	if !ok {
		return fault(path, "Envoy has no rules for this message")
	}
	err := validator.ValidateAll()
	for err != nil {
		var many interface{ AllErrors() []error }
		if errors.As(err, &many) && len(many.AllErrors()) > 0 {
			err = many.AllErrors()[0]
		}
		var found violation
		if !errors.As(err, &found) {
			return fault(path, "%s", oneLine(err.Error()))
		}
		path = join(path, snake(found.Field()))
		if found.Cause() == nil {
			return fault(path, "%s", oneLine(found.Reason()))
		}
		err = found.Cause()
	}
	return nil
}

// snake turns the Go name of a field into its name in the protocol:
// StaticResources into static_resources.
func snake(name string) string {
	var out strings.Builder
	after := rune(0)
	for _, r := range name {
		if unicode.IsUpper(r) && (unicode.IsLower(after) || unicode.IsDigit(after)) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
		after = r
	}
	return out.String()
}

// position is where protojson says that it stopped. It counts in the JSON that
// was made of the YAML, which nobody has seen.
var position = regexp.MustCompile(`^proto:\s+(syntax error\s+)?(\(line \d+:\d+\):\s+)?`)

// oneLine flattens a message and takes protojson's prefix from it. Protojson
// varies its spaces on purpose; here the same fault always reads the same.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "\u00a0", " ")), " ")
	return position.ReplaceAllString(text, "")
}
