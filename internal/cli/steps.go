package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// steps shows the steps of something that takes a while: on a terminal, a step
// under way is one line that the next replaces; elsewhere, each is a line of its
// own. It is not safe for concurrent use.
type steps struct {
	out   io.Writer
	live  bool
	width int
	// open is the text of a step that is under way on a terminal, or the last one
	// elsewhere.
	open string
}

// newSteps shows steps on out, live if that is a terminal.
func newSteps(out io.Writer) *steps {
	shown := &steps{out: out}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		shown.live = true
		shown.width, _, _ = term.GetSize(int(file.Fd()))
	}
	return shown
}

// show shows a step; final says that it is over and its line stays.
func (s *steps) show(text string, final bool) {
	if !s.live {
		if text != s.open {
			fmt.Fprintln(s.out, text)
		}
		s.open = text
		return
	}
	s.clear()
	if final {
		fmt.Fprintln(s.out, text)
		return
	}
	// A line that wraps can't be replaced.
	if runes := []rune(text); s.width > 1 && len(runes) >= s.width {
		text = string(runes[:s.width-1])
	}
	fmt.Fprint(s.out, text)
	s.open = text
}

// clear takes a step that is under way off a terminal.
func (s *steps) clear() {
	if s.live && s.open != "" {
		fmt.Fprint(s.out, "\r\033[K")
		s.open = ""
	}
}
