package plan

import (
	"fmt"
	"io"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/object"
)

const (
	red, green, yellow, cyan, plain = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[0m"

	// around is how many unchanged lines are shown beside a changed one.
	around = 3
)

// signs stand before an object's name.
var signs = map[apply.Action]struct{ sign, colour string }{
	apply.Created:    {"+", green},
	apply.Configured: {"~", yellow},
	apply.Unchanged:  {"=", ""},
	apply.Deleted:    {"-", red},
	apply.Skipped:    {"=", ""},
	apply.Failed:     {"!", red},
}

// Style says how to print.
type Style struct {
	Colour bool
	Brief  bool // without the diffs
}

func (s Style) paint(with, text string) string {
	if !s.Colour || with == "" {
		return text
	}
	return with + text + plain
}

// Print writes the plan: for each object a line and its diff, then the notes,
// then a summary.
func Print(out io.Writer, plan *Plan, style Style) error {
	var text strings.Builder
	var owner *object.Ref
	for _, change := range plan.Changes {
		if change.For != nil && (owner == nil || *owner != *change.For) {
			fmt.Fprintf(&text, "\nmade for %s:\n", change.For.Display())
		}
		owner = change.For
		sign := signs[change.Action]
		line := fmt.Sprintf("%s %s  %s", sign.sign, change.Object.Display(), change.Action)
		if change.Message != "" {
			line += ": " + change.Message
		}
		text.WriteString(style.paint(sign.colour, line) + "\n")
		if style.Brief {
			continue
		}
		lines, err := diff(change)
		if err != nil {
			return err
		}
		for _, each := range lines {
			text.WriteString("    " + style.paint(colourOf(each), each) + "\n")
		}
	}
	for _, note := range plan.Notes {
		fmt.Fprintf(&text, "\nnote: %s\n", note)
	}
	text.WriteString("\n" + summary(plan) + "\n")
	_, err := io.WriteString(out, text.String())
	return err
}

func colourOf(line string) string {
	switch {
	case strings.HasPrefix(line, "@@"):
		return cyan
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	}
	return ""
}

// diff compares an object's YAML before and after. What is deleted or refused
// has no diff.
func diff(change Change) ([]string, error) {
	if change.Action != apply.Created && change.Action != apply.Configured {
		return nil, nil
	}
	before, err := text(change.Before)
	if err != nil {
		return nil, err
	}
	after, err := text(change.After)
	if err != nil {
		return nil, err
	}
	unified, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: before, B: after, Context: around})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(unified, "\n"), "\n")
	if change.Before == nil && len(lines) > 0 {
		lines = lines[1:] // the position says nothing where all is new
	}
	return lines, nil
}

func text(content map[string]any) ([]string, error) {
	if content == nil {
		return nil, nil
	}
	raw, err := yaml.Marshal(content)
	if err != nil {
		return nil, err
	}
	return strings.SplitAfter(strings.TrimRight(string(raw), "\n")+"\n", "\n")[:strings.Count(string(raw), "\n")], nil
}

func summary(plan *Plan) string {
	text := fmt.Sprintf("%d to create, %d to change, %d to delete, %d unchanged",
		plan.count(apply.Created), plan.count(apply.Configured), plan.count(apply.Deleted), plan.count(apply.Unchanged)+plan.count(apply.Skipped))
	if refused := plan.Refused(); refused > 0 {
		text += fmt.Sprintf(", %d refused", refused)
	}
	return text + ". Nothing was written."
}
