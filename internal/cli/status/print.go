package status

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/readiness"
)

// Style says how to print.
type Style struct {
	Colour bool
	// Wide adds the objects' details.
	Wide bool
	// Width of the terminal in columns, which a wide view keeps to as far as it
	// can; 0: there is none.
	Width int
	// Now is what ages are counted to; the zero time leaves them out.
	Now time.Time
}

const (
	// alike is how many pods in the same state are shown by name.
	alike = 3
	// maxNotes bounds the sentences below a tree.
	maxNotes = 5
)

// Print writes a tree, and below it each sentence that says what is wrong, once,
// with the next command.
func Print(out io.Writer, root *Node, style Style) error {
	var table table
	if style.Wide {
		table = wide(style, []column{{"  NAME", leastName, head}, {"STATUS", 0, head}, {"REASON", leastReason, head}})
	}
	branch(&table, root, root.Object.Namespace, "", "", style)
	if style.Wide {
		table.dropEmpty()
	}
	text := table.String()
	for _, note := range notes(root) {
		text += "\n" + style.mark(note.Status) + " " + sentence(note, root) + "\n"
		if note.Next != "" {
			text += "  next: " + note.Next + "\n"
		}
	}
	_, err := io.WriteString(out, text)
	return err
}

// branch adds a node's line and those below it. First is what stands before its
// own line, rest before the others.
func branch(table *table, node *Node, namespace, first, rest string, style Style) {
	name := node.Object.Kind + "/" + node.Object.Name
	if node.Object.Namespace != namespace && node.Object.Namespace != "" {
		name += " (" + node.Object.Namespace + ")"
	}
	cells := []string{first + style.mark(node.Status) + " " + name, style.paint(node.Status, string(node.Status)), reason(node)}
	table.add(append(cells, style.details(node)...)...)
	children, hidden := shown(node.Children)
	for i, child := range children {
		fork, bar := "├── ", "│   "
		if i == len(children)-1 && hidden == "" {
			fork, bar = "└── ", "    "
		}
		branch(table, child, namespace, rest+fork, rest+bar, style)
	}
	if hidden != "" {
		table.add(rest + "└── " + hidden)
	}
}

// reason is told where it says more than the status.
func reason(node *Node) string {
	if node.Status == readiness.Ready || node.Reason == string(node.Status) {
		return ""
	}
	return node.Reason
}

// shown leaves out pods beyond the first few in the same state, and says how
// many those are.
func shown(children []*Node) (kept []*Node, hidden string) {
	counts := map[string]int{}
	left := 0
	for _, child := range children {
		state := string(child.Status) + child.Reason + child.Message
		if child.Object.Kind == "Pod" {
			counts[state]++
		}
		if counts[state] > alike {
			left++
			continue
		}
		kept = append(kept, child)
	}
	if left > 0 {
		hidden = fmt.Sprintf("and %d more pods like these", left)
	}
	return kept, hidden
}

// notes are the nodes whose sentences are told below the tree, each sentence
// once: by the first node that has it, or a later one that knows the next
// command too. Where something has failed, what is merely in progress isn't
// told; where a diagnosis knows the next step, neither are bare counts. What
// the resource itself tells is left out only where it is no more than that it
// waits.
func notes(root *Node) []*Node {
	if root.Status == readiness.Ready && root.Message != "" {
		return []*Node{root}
	}
	var told []*Node
	root.walk(func(node *Node) {
		if node.Status == readiness.Ready || node.Message == "" || node.Object.Kind == "ReplicaSet" ||
			node.Status == readiness.Missing && strings.Contains(root.Message, node.Object.Name) ||
			node.Object.Kind == kindComponent && strings.Contains(root.Message, node.Message) {
			return // nothing to tell, or told by what is above it
		}
		at := slices.IndexFunc(told, func(other *Node) bool { return other.Message == node.Message })
		switch {
		case at < 0:
			told = append(told, node)
		case told[at].Next == "":
			told[at] = node
		}
	})
	telling := func(n *Node) bool { return n == root && n.Reason != condition.ReasonProgressing }
	underWay := func(n *Node) bool { return n.Status == readiness.InProgress && !telling(n) }
	bare := func(n *Node) bool { return n.Status == readiness.InProgress && n.Next == "" && !telling(n) }
	for _, lesser := range []func(*Node) bool{underWay, bare} {
		if slices.ContainsFunc(told, func(n *Node) bool { return !lesser(n) }) {
			told = slices.DeleteFunc(told, lesser)
		}
	}
	return told[:min(len(told), maxNotes)]
}

// sentence is a node's message; one that isn't about the whole and doesn't name
// its object gets the name.
func sentence(node, root *Node) string {
	if node == root || node.Next != "" {
		return node.Message
	}
	return node.Object.Kind + " " + node.Object.Name + ": " + node.Message
}

// PrintFlat writes one line for each resource, and a summary.
func PrintFlat(out io.Writer, nodes []*Node, allNamespaces bool, style Style) error {
	columns := []column{{"  NAME", leastName, head}, {"STATUS", 0, head}}
	if allNamespaces {
		columns = append([]column{{"NAMESPACE", 0, head}}, columns...)
	}
	table := wide(style, columns, column{title: "MESSAGE"})
	counts := map[readiness.Status]int{}
	for _, node := range nodes {
		counts[node.Status]++
		var cells []string
		if allNamespaces {
			cells = append(cells, node.Object.Namespace)
		}
		cells = append(cells, style.mark(node.Status)+" "+node.Object.Kind+"/"+node.Object.Name, style.paint(node.Status, string(node.Status)))
		table.add(append(append(cells, style.details(node)...), node.Message)...)
	}
	if style.Wide {
		table.dropEmpty()
	}
	_, err := fmt.Fprintf(out, "%s\n%s\n", table.String(), summary(nodes, counts, allNamespaces))
	return err
}

func summary(nodes []*Node, counts map[readiness.Status]int, allNamespaces bool) string {
	var parts []string
	for _, each := range []struct {
		status readiness.Status
		word   string
	}{
		{readiness.Ready, "ready"}, {readiness.InProgress, "in progress"}, {readiness.Failed, "failed"},
		{readiness.Terminating, "terminating"}, {readiness.Unknown, "unknown"},
	} {
		if counts[each.status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[each.status], each.word))
		}
	}
	noun := "resources"
	if len(nodes) == 1 {
		noun = "resource"
	}
	text := fmt.Sprintf("%d %s: %s", len(nodes), noun, strings.Join(parts, ", "))
	for _, wanted := range []readiness.Status{readiness.Failed, readiness.InProgress} {
		at := slices.IndexFunc(nodes, func(n *Node) bool { return n.Status == wanted })
		if at >= 0 {
			where := ""
			if allNamespaces && nodes[at].Object.Namespace != "" {
				where = " -n " + nodes[at].Object.Namespace
			}
			return text + fmt.Sprintf("; see why with slipway status%s %s/%s", where, strings.ToLower(nodes[at].Object.Kind), nodes[at].Object.Name)
		}
	}
	return text
}

// marks stand before a name; colours are ANSI's.
var marks = map[readiness.Status]struct{ mark, colour string }{
	readiness.Ready:       {"✓", "\x1b[32m"},
	readiness.InProgress:  {"…", "\x1b[33m"},
	readiness.Failed:      {"✗", "\x1b[31m"},
	readiness.Missing:     {"✗", "\x1b[31m"},
	readiness.Terminating: {"-", "\x1b[33m"},
	readiness.Unknown:     {"?", "\x1b[33m"},
}

func (s Style) mark(status readiness.Status) string { return s.paint(status, marks[status].mark) }

func (s Style) paint(status readiness.Status, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return marks[status].colour + text + "\x1b[0m"
}
