package object

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxName is the length of a DNS label (RFC 1123), the bound that every kind's
// name keeps to.
const MaxName = 63

// suffix is the length of the hash that a shortened name ends in, in
// hexadecimal digits: 40 bits.
const suffix = 10

// Name joins parts with hyphens to a DNS label of at most MaxName bytes. A name
// that fits is left as it is, readable; one that had to be shortened or cleaned
// ends in a hash of the whole, so that distinct names stay distinct.
func Name(parts ...string) string { return NameWithin(MaxName, parts...) }

// NameWithin is Name with another limit in bytes, for kinds whose controllers
// add to the name (a StatefulSet's pods carry a hash of 11). A limit below 12
// counts as 12.
func NameWithin(limit int, parts ...string) string {
	limit = max(limit, suffix+2)
	whole := strings.Join(parts, "-")
	clean := trimHyphens(strings.Map(labelRune, whole))
	if clean == whole && whole != "" && len(whole) <= limit {
		return whole
	}
	return shorten(whole, clean, limit, trimHyphens)
}

// LabelValue makes a valid label value of at most 63 bytes of any text. A text
// that is one already, or is empty, is left as it is; any other is shortened
// and cleaned and ends in a hash of the whole.
func LabelValue(text string) string {
	clean := trimPunctuation(strings.Map(labelValueRune, text))
	if clean == text && len(text) <= MaxName {
		return text
	}
	return shorten(text, clean, MaxName, trimPunctuation)
}

func shorten(whole, clean string, limit int, trim func(string) string) string {
	sum := sha256.Sum256([]byte(whole))
	digest := hex.EncodeToString(sum[:])[:suffix]
	clean = trim(clean[:min(len(clean), limit-suffix-1)])
	if clean == "" {
		return "x" + digest // a name may have to start with a letter
	}
	return clean + "-" + digest
}

func trimHyphens(text string) string { return strings.Trim(text, "-") }

func trimPunctuation(text string) string { return strings.Trim(text, "-_.") }

func labelRune(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
		return r
	case r >= 'A' && r <= 'Z':
		return r - 'A' + 'a'
	default:
		return '-'
	}
}

func labelValueRune(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		return r
	default:
		return '-'
	}
}
