package status

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// column is a column of a table.
type column struct {
	title string
	// least is how narrow it may become for a terminal's sake; 0: not at all.
	least int
	keeps end
}

// end is which end of a text says most.
type end int

const (
	head end = iota
	tail
)

// table aligns cells in columns by what a terminal shows of them.
type table struct {
	columns []column // none: no header, and nothing is shortened
	rows    [][]string
	limit   int // of a line's width; 0: none
}

const (
	gap       = 3 // between columns
	narrowGap = 2 // where there is a limit

	// How narrow a column may become.
	leastName   = 32
	leastReason = 10
	leastNode   = 8
	leastImage  = 16
)

func (t *table) gap() int {
	if t.limit > 0 {
		return narrowGap
	}
	return gap
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// dropEmpty leaves out the columns that have nothing but a title.
func (t *table) dropEmpty() {
	for i := len(t.columns) - 1; i >= 0; i-- {
		if slices.ContainsFunc(t.rows, func(row []string) bool { return i < len(row) && row[i] != "" }) {
			continue
		}
		t.columns = slices.Delete(t.columns, i, i+1)
		for at, row := range t.rows {
			if i < len(row) {
				t.rows[at] = slices.Delete(row, i, i+1)
			}
		}
	}
}

func (t *table) String() string {
	rows := t.rows
	if len(t.columns) > 0 {
		rows = append([][]string{nil}, rows...)
		for _, each := range t.columns {
			rows[0] = append(rows[0], each.title)
		}
	}
	widths := t.widths(rows)
	var text strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			if len(row) > 1 && i < len(t.columns) && t.columns[i].least > 0 {
				cell = shorten(cell, widths[i], t.columns[i].keeps)
			}
			line += cell + strings.Repeat(" ", max(0, widths[i]-Width(cell))+t.gap())
		}
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return text.String()
}

// widths are the columns' widths. Where the lines would be longer than the
// limit, the columns that may be shortened give what they can, the last first.
func (t *table) widths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if len(row) > 1 {
				widths[i] = max(widths[i], Width(cell))
			}
		}
	}
	over := -t.limit - t.gap()
	for _, each := range widths {
		over += each + t.gap()
	}
	for i := len(t.columns) - 1; i >= 0 && t.limit > 0 && over > 0; i-- {
		if least := t.columns[i].least; least > 0 && widths[i] > least {
			given := min(over, widths[i]-least)
			widths[i] -= given
			over -= given
		}
	}
	return widths
}

// shorten keeps one end of a text that is longer than a width. A text with
// colours keeps its head.
func shorten(text string, to int, keeps end) string {
	if keeps == head || Width(text) <= to {
		return clip(text, to)
	}
	runes := []rune(text)
	return "…" + string(runes[len(runes)-max(to-1, 0):])
}

// Width is how many columns of a terminal a text takes: its runes without
// colours.
func Width(text string) int {
	count := 0
	pieces(text, func(piece string, colour bool) {
		if !colour {
			count += utf8.RuneCountInString(piece)
		}
	})
	return count
}

// Wrap breaks a text into lines of a terminal's columns, as the terminal would.
func Wrap(text string, to int) []string {
	var lines []string
	var line strings.Builder
	left := to
	pieces(text, func(piece string, colour bool) {
		if colour {
			line.WriteString(piece)
			return
		}
		for runes := []rune(piece); len(runes) > 0; {
			if left == 0 {
				lines = append(lines, line.String())
				line.Reset()
				left = to
			}
			fits := min(left, len(runes))
			line.WriteString(string(runes[:fits]))
			runes, left = runes[fits:], left-fits
		}
	})
	return append(lines, line.String())
}

// clip cuts a text to a terminal's columns, with an ellipsis where something was
// left out. Its colours stay, and so does their end.
func clip(text string, to int) string {
	if Width(text) <= to {
		return text
	}
	var kept strings.Builder
	left := max(to-1, 0)
	done := false
	pieces(text, func(piece string, colour bool) {
		switch runes := []rune(piece); {
		case colour:
			kept.WriteString(piece)
		case done:
		case len(runes) > left:
			kept.WriteString(string(runes[:left]) + "…")
			done = true
		default:
			kept.WriteString(piece)
			left -= len(runes)
		}
	})
	return kept.String()
}

// pieces visits a text's colours (ANSI's "\x1b[…m") and what is between them.
func pieces(text string, visit func(piece string, colour bool)) {
	for text != "" {
		start := strings.Index(text, "\x1b[")
		length := 0
		if start >= 0 {
			length = strings.IndexByte(text[start:], 'm') + 1
		}
		if length == 0 {
			visit(text, false)
			return
		}
		if start > 0 {
			visit(text[:start], false)
		}
		visit(text[start:start+length], true)
		text = text[start+length:]
	}
}
