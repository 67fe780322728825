package readiness

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/condition"
)

// Item is one of many objects that are summed up. Name is what a user calls it,
// as "Deployment/chat".
type Item struct {
	Name string
	Result
}

// named is how many objects a roll-up names.
const named = 3

// RollUp sums up many: the worst status wins, and the message names the first
// objects that aren't ready (the worst first, then by name) and how many more
// there are. The order of items doesn't matter. No items are ready.
func RollUp(items []Item) Result {
	var open []Item
	for _, item := range items {
		if item.Status != Ready {
			open = append(open, item)
		}
	}
	if len(open) == 0 {
		return Result{Status: Ready, Reason: condition.ReasonReady}
	}
	slices.SortFunc(open, func(a, b Item) int {
		return cmp.Or(
			cmp.Compare(badness(b.Status), badness(a.Status)),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message),
		)
	})
	worst := open[0].Result
	if worst.Reason == "" {
		worst.Reason = string(worst.Status)
	}
	sentences := make([]string, 0, named)
	for _, item := range open[:min(named, len(open))] {
		// Each gets its share, so that a long one doesn't hide how many there are.
		sentences = append(sentences, condition.BoundTo(sentence(item), condition.MaxMessage/(named+1)))
	}
	worst.Message = strings.Join(sentences, "; ")
	if more := len(open) - named; more > 0 {
		worst.Message += fmt.Sprintf("; and %d more", more)
	}
	return worst
}

func sentence(item Item) string {
	if item.Message == "" {
		return item.Name + ": " + string(item.Status)
	}
	return item.Name + ": " + item.Message
}

// list names the first few of many words and counts the rest.
func list(words []string, limit int) string {
	words = slices.Sorted(slices.Values(words))
	if len(words) <= limit {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:limit], ", "), len(words)-limit)
}

func badness(status Status) int {
	return slices.Index([]Status{Ready, InProgress, Terminating, Unknown, Missing, Failed}, status)
}
