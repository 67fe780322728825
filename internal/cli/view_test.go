package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// screen is as much of a terminal as a view uses: it wraps when the next rune
// comes, scrolls, moves up within its lines, and erases.
type screen struct {
	width, height int
	lines         [][]rune // all that was ever there; the last height are seen
	row, column   int
}

func (s *screen) Write(text []byte) (int, error) {
	for rest := string(text); rest != ""; {
		var up int
		switch {
		case strings.HasPrefix(rest, "\x1b[K"):
			s.lines[s.row] = s.lines[s.row][:min(s.column, len(s.lines[s.row]))]
			rest = rest[3:]
		case strings.HasPrefix(rest, "\x1b[J"):
			s.at()
			s.lines[s.row] = s.lines[s.row][:min(s.column, len(s.lines[s.row]))]
			s.lines = s.lines[:s.row+1]
			rest = rest[3:]
		case strings.HasPrefix(rest, "\x1b["):
			if _, err := fmt.Sscanf(rest, "\x1b[%dA", &up); err != nil {
				return 0, err
			}
			s.row = max(s.row-up, len(s.lines)-s.height, 0)
			rest = rest[strings.IndexByte(rest, 'A')+1:]
		case rest[0] == '\r':
			s.column, rest = 0, rest[1:]
		case rest[0] == '\n':
			s.row, s.column, rest = s.row+1, 0, rest[1:]
			s.at()
		default:
			if s.column == s.width {
				s.row, s.column = s.row+1, 0
			}
			s.at()
			s.lines[s.row] = append(s.lines[s.row][:s.column:s.column], append([]rune{rune(rest[0])}, s.lines[s.row][min(s.column+1, len(s.lines[s.row])):]...)...)
			s.column, rest = s.column+1, rest[1:]
		}
	}
	return len(text), nil
}

// at makes the line that the cursor is in.
func (s *screen) at() {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
}

func (s *screen) String() string {
	var text strings.Builder
	for _, line := range s.lines {
		text.WriteString(string(line) + "\n")
	}
	return text.String()
}

// TestAViewTakesThePlaceOfTheOneBefore: whatever was shown before, a terminal
// shows the last text, and what stood there at the beginning.
func TestAViewTakesThePlaceOfTheOneBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terminal := &screen{width: rapid.IntRange(5, 12).Draw(t, "width"), height: 40}
		shown := &view{out: terminal, size: func() (int, int) { return terminal.width, terminal.height }}
		if _, err := terminal.Write([]byte("prompt\n")); err != nil {
			t.Fatal(err)
		}
		prompt := strings.TrimSuffix(terminal.String(), "\n")
		text := rapid.StringMatching(`([a-c]{0,20}\n){0,5}[a-c]{1,20}\n`)
		for _, each := range append(rapid.SliceOfN(text, 0, 4).Draw(t, "before"), text.Draw(t, "last")) {
			if err := shown.show(each, each); err != nil {
				t.Fatal(err)
			}
			want := &screen{width: terminal.width, height: terminal.height}
			if _, err := want.Write([]byte(each)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(prompt+want.String(), terminal.String()); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func TestAViewKeepsToTheTerminal(t *testing.T) {
	terminal := &screen{width: 80, height: 5}
	shown := &view{out: terminal, size: func() (int, int) { return 80, 5 }}
	for range 3 {
		if err := shown.show("1\n2\n3\n4\n5\n6\n", ""); err != nil {
			t.Fatal(err)
		}
	}
	if want := "1\n2\n3\n(3 more lines; a higher terminal shows them)\n\n"; terminal.String() != want {
		t.Errorf("got %q, want %q", terminal.String(), want)
	}
}

// TestAViewElsewhere: where nothing can be replaced, a text is shown only when
// there is news in it.
func TestAViewElsewhere(t *testing.T) {
	var out bytes.Buffer
	shown := newView(&out)
	for _, each := range []struct{ text, knownBy string }{
		{"5s a\n", "a"}, {"9s a\n", "a"}, {"9s b\n", "b"}, {"1m a\n", "a"},
	} {
		if err := shown.show(each.text, each.knownBy); err != nil {
			t.Fatal(err)
		}
	}
	if want := "5s a\n\n9s b\n\n1m a\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
