package plan

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// longestName is the longest field's name, in runes, that is compared with
	// others. Kubernetes' own longest has 57.
	longestName = 64
	// maxSlips bounds how many slips of the hand a misspelt name may have.
	maxSlips = 3
	// maxFaults bounds how many unknown fields of one object are told.
	maxFaults = 5
	// maxDepth and maxVisited bound the search for a field that was written in the
	// wrong place.
	maxDepth   = 5
	maxVisited = 2000
)

var (
	// strictFault is what a strict decoder says of one field.
	strictFault = regexp.MustCompile(`(unknown|duplicate) field "([^"]*)"`)
	// undeclared is what server-side apply says of an unknown field
	// (structured-merge-diff, typed/validate.go).
	undeclared = regexp.MustCompile(`()\.(\S+): field not declared in schema`)
)

// explain puts what a strict decoder or server-side apply says into sentences
// that name each field, what is wrong with it, and which one may be meant. Any
// other text stays as it is.
func explain(text string, known Schema) string {
	faults := append(strictFault.FindAllStringSubmatch(text, -1), undeclared.FindAllStringSubmatch(text, -1)...)
	var told []string
	for _, fault := range faults[:min(len(faults), maxFaults)] {
		told = append(told, explainField(fault[1], fault[2], known))
	}
	if len(told) == 0 {
		return text
	}
	if left := len(faults) - len(told); left > 0 {
		told = append(told, fmt.Sprintf("and %d more", left))
	}
	return strings.Join(told, "; ")
}

func explainField(fault, path string, known Schema) string {
	if fault == "duplicate" {
		return path + ": written twice; remove one of them"
	}
	if meant := known.meant(path); meant != "" {
		return path + ": unknown field; did you mean " + meant + "?"
	}
	return path + ": unknown field; correct its name or remove it"
}

// meant is the path of the field that someone who wrote an unknown one may have
// meant: the nearest name in the same object, or the same name elsewhere. It is
// empty when there is none.
func (s Schema) meant(path string) string {
	parent, name, above := cutLast(path)
	beside := s.fields(parent)
	if found, is := nearest(name, slices.Collect(maps.Keys(beside))); is {
		if above {
			return parent + "." + found
		}
		return found
	}
	return s.elsewhere(name)
}

func cutLast(path string) (parent, name string, is bool) {
	at := strings.LastIndexByte(path, '.')
	if at < 0 {
		return "", path, false
	}
	return path[:at], path[at+1:], true
}

// elsewhere finds the only field of a name that is nearest to the top, outside
// of lists and of what isn't for people to write.
func (s Schema) elsewhere(name string) string {
	level := []string{"spec"}
	visited := 0
	for range maxDepth {
		var found, next []string
		for _, path := range level {
			for _, field := range slices.Sorted(maps.Keys(s.fields(path))) {
				if visited++; visited > maxVisited {
					return ""
				}
				if strings.EqualFold(field, name) {
					found = append(found, path+"."+field)
				}
				next = append(next, path+"."+field)
			}
		}
		if len(found) > 0 {
			if len(found) > 1 {
				return ""
			}
			return found[0]
		}
		level = next
	}
	return ""
}

// nearest is the candidate that differs least from a name, and by no more than a
// slip of the hand for every three runes. Whether letters are large or small
// makes no difference.
func nearest(name string, candidates []string) (string, bool) {
	length := utf8.RuneCountInString(name)
	if length < 2 || length > longestName {
		return "", false
	}
	allowed := min(max(length/3, 1), maxSlips)
	best, least := "", allowed+1
	slices.SortFunc(candidates, func(a, b string) int { return cmp.Compare(a, b) })
	for _, candidate := range candidates {
		if difference := utf8.RuneCountInString(candidate) - length; difference > allowed || -difference > allowed {
			continue
		}
		if slips := distance(strings.ToLower(name), strings.ToLower(candidate)); slips < least {
			best, least = candidate, slips
		}
	}
	return best, least <= allowed
}

// distance counts the letters to insert, to drop, to replace or to swap with
// their neighbour that make one word another (optimal string alignment, after
// Damerau 1964).
func distance(from, to string) int {
	a, b := []rune(from), []rune(to)
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
