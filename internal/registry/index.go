package registry

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// wholeIndex is up to which size an index is decoded as a whole, in bytes. A
// decoded index takes some fifteen times its size in memory, so that of a larger
// one only the wanted chart's part is decoded.
const wholeIndex = 4 << 20

// indexFile is a repository's index.yaml, of which only what is needed here is
// read (Helm's documentation, "The Chart Repository Guide").
type indexFile struct {
	APIVersion string                  `yaml:"apiVersion"`
	Entries    map[string][]indexEntry `yaml:"entries"`
}

// indexEntry is a published version of a chart.
type indexEntry struct {
	Name        string            `yaml:"name"`
	Version     string            `yaml:"version"`
	AppVersion  string            `yaml:"appVersion,omitempty"`
	APIVersion  string            `yaml:"apiVersion,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
	Digest      string            `yaml:"digest,omitempty"`
	URLs        []string          `yaml:"urls"`
}

// parseIndex returns the published versions of a chart in an index.yaml, in their
// order; none if it doesn't list the chart. Entries that can't be read are passed
// over, as Helm does: one bad version doesn't take the others away. what names the
// index in errors.
func parseIndex(what string, data []byte, name string) ([]indexEntry, error) {
	if part, is := cutIndex(data, name); is {
		data = part
	}
	if len(data) > wholeIndex {
		return nil, &TooLargeError{What: what + " (where helm repo index hasn't written it)", Limit: wholeIndex}
	}
	var index struct {
		Entries map[string]yaml.Node `yaml:"entries"`
	}
	if err := yaml.Unmarshal(data, &index); err != nil {
		return nil, &InvalidError{fmt.Sprintf("%s is no index of a chart repository; check the repository's URL", what)}
	}
	if index.Entries == nil {
		return nil, &InvalidError{fmt.Sprintf("%s has no entries, so it is no index of a chart repository; check the repository's URL", what)}
	}
	node, found := index.Entries[name]
	if !found || node.Kind != yaml.SequenceNode {
		return nil, nil
	}
	entries := []indexEntry{}
	for _, item := range node.Content {
		var entry indexEntry
		if err := item.Decode(&entry); err != nil || entry.Version == "" || len(entry.URLs) == 0 {
			continue
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// cutIndex returns the part of an index that lists one chart, as an index. It knows
// the form in which Helm writes an index, a block of lines for each chart, and says
// false of any other.
func cutIndex(data []byte, name string) (part []byte, is bool) {
	const head = "entries:"
	part = []byte(head + " {}\n")
	within, wanted, indent := false, false, 0
	for line := range bytes.Lines(data) {
		text := strings.TrimRight(string(line), " \r\n")
		blank := strings.TrimLeft(text, " ")
		depth := len(text) - len(blank)
		switch {
		case blank == "" || blank[0] == '#':
			continue
		case !within:
			within = text == head
			if !within && strings.HasPrefix(text, "entries") {
				return nil, false
			}
			continue
		case depth == 0 && blank[0] != '-':
			return part, true
		case indent == 0:
			indent = depth
		}
		switch {
		case depth < indent || indent == 0:
			return nil, false
		case depth == indent && blank[0] != '-':
			key, plain := strings.CutSuffix(blank, ":")
			if !plain || strings.ContainsAny(key, "\"'&*!|>{}[],:? ") {
				return nil, false
			}
			if wanted = key == name; wanted {
				part = []byte(head + "\n")
			}
		}
		if wanted {
			part = append(append(part, text...), '\n')
		}
	}
	return part, within
}
