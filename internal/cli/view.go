package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/slipway-dev/slipway/internal/cli/status"
)

// view shows a text that is followed by others: on a terminal each takes the
// place of the one before; elsewhere it comes below that, after an empty line. It
// is not safe for concurrent use.
type view struct {
	out io.Writer
	// size gives the terminal's columns and lines; nil: there is no terminal.
	size func() (width, height int)
	// lines are those on the terminal.
	lines []string
	// last is what the text before was known by.
	last  string
	begun bool
}

// newView shows texts on out, in place if that is a terminal that can do so.
func newView(out io.Writer) *view {
	shown := &view{out: out}
	if file, ok := out.(*os.File); ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd())) {
		shown.size = func() (int, int) {
			width, height, _ := term.GetSize(int(file.Fd()))
			return width, height
		}
	}
	return shown
}

// show shows a text. Without a terminal it does so only if the text is known by
// something else than the one before: a text in which an age has grown is the
// same.
func (v *view) show(text, knownBy string) error {
	if v.size != nil {
		return v.redraw(text)
	}
	if v.begun && knownBy == v.last {
		return nil
	}
	if v.begun {
		text = "\n" + text
	}
	v.begun, v.last = true, knownBy
	_, err := io.WriteString(v.out, text)
	return err
}

// redraw writes a text over the one before, in one go so that nothing flickers.
// What the terminal has no room for is left out: a line that has scrolled away
// can't be replaced.
func (v *view) redraw(text string) error {
	width, height := v.size()
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if width > 0 {
			lines = append(lines, status.Wrap(line, width)...)
		} else {
			lines = append(lines, line)
		}
	}
	if room := height - 1; room > 1 && len(lines) > room {
		more := fmt.Sprintf("(%d more lines; a higher terminal shows them)", len(lines)-room+1)
		lines = append(lines[:room-1], status.Wrap(more, max(width, 1))[0])
	}
	var drawn strings.Builder
	drawn.WriteString(v.back(width))
	for _, line := range lines {
		// What a line of its full width would erase behind it is its last column.
		if width == 0 || status.Width(line) < width {
			line += "\x1b[K"
		}
		drawn.WriteString(line + "\n")
	}
	drawn.WriteString("\x1b[J")
	v.lines = lines
	_, err := io.WriteString(v.out, drawn.String())
	return err
}

// back moves to where the text before began. A terminal that was made narrower
// since then has broken its lines.
func (v *view) back(width int) string {
	if len(v.lines) == 0 {
		return ""
	}
	up := 0
	for _, line := range v.lines {
		up++
		if taken := status.Width(line); width > 0 && taken > width {
			up += (taken - 1) / width
		}
	}
	return fmt.Sprintf("\r\x1b[%dA", up)
}
