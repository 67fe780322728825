package diagnosis

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/condition"
)

// maxQuote bounds, in bytes, what is quoted from a container or a registry.
const maxQuote = 320

// maxNamed bounds how many of several things a message names.
const maxNamed = 3

// What changes from one pod, try or run to the next, and what replaces it. The
// order matters: the longer pattern first.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\s*\(pod: "[^"]*", container: [^)]*\)`), ""},
	{regexp.MustCompile(`\bpods? "[^"]*"`), "the pod"},
	{regexp.MustCompile(`\bpod=\S+`), ""},
	// NAME-HASH-RANDOM, in the alphabet of apimachinery's rand.SafeEncodeString.
	{regexp.MustCompile(`\b[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?-[bcdfghjklmnpqrstvwxz2456789]{4,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "the pod"},
	{regexp.MustCompile(`\b\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?`), ""},
	{regexp.MustCompile(`\b[IWEF]\d{4} \d\d:\d\d:\d\d(?:\.\d+)?\s+\d+`), ""},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(?:[.,]\d+)?`), ""},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "…"},
	{regexp.MustCompile(`\b[0-9a-f]{32,}\b`), "…"},
	{regexp.MustCompile(`\b0x[0-9a-fA-F]+\b`), "0x…"},
	{regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}:(\d+)->\S+`), ":$1"},
	{regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}:(\d+)`), ":$1"},
	{regexp.MustCompile(`\bback-?off \d\S*`), "backing off"},
	{regexp.MustCompile(`\b(?:pid|PID)[ =:]\s*\d+`), ""},
}

// What looks like a secret in a container's last words.
var secret = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}`), "$1 ***"},
	{regexp.MustCompile(`(?i)([a-z0-9_-]*(?:token|passw(?:or)?d|secret|api[_-]?key|credential)s?["']?\s*[=:]\s*)\S+`), "$1***"},
	{regexp.MustCompile(`\b(?:hf_|sk-|ghp_|glpat-|nvapi-|AKIA)[A-Za-z0-9_-]{8,}`), "***"},
	{regexp.MustCompile(`(://)[^/\s:@]+:[^/\s@]+@`), "$1***@"},
}

// quote is what a container, a registry or the cluster said, fit for a message:
// without what changes from one time to the next, without what looks like a
// secret, on one line, at most maxQuote bytes.
func (f Facts) quote(text string) string {
	for _, each := range secret {
		text = each.pattern.ReplaceAllString(text, each.with)
	}
	for _, each := range volatile {
		text = each.pattern.ReplaceAllString(text, each.with)
	}
	text = fold(f.withoutPods(text))
	return condition.BoundTo(strings.Trim(text, ` :;,.[]-`), maxQuote)
}

// withoutPods replaces the names of pods where they stand as words, the longer
// ones first so that none is left in part.
func (f Facts) withoutPods(text string) string {
	var names []string
	for i := range f.Pods {
		if name := f.Pods[i].Name; name != "" && strings.Contains(text, name) {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	if len(names) == 0 {
		return text
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return regexp.MustCompile(`\b(?:`+strings.Join(names, "|")+`)\b`).ReplaceAllString(text, "the pod")
}

// lastLine is the last line of a text that says something.
func lastLine(text string) string {
	lines := strings.Split(text, "\n")
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); strings.ContainsFunc(line, isWord) {
			return line
		}
	}
	return ""
}

func isWord(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127 }

func fold(text string) string { return strings.Join(strings.Fields(text), " ") }
