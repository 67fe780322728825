package simulator

import (
	"unicode"
	"unicode/utf8"
)

// longestToken bounds a token's runes, so that a long word costs many tokens,
// as it does with a real tokenizer.
const longestToken = 16

// nextToken returns the length in bytes of the first token of a text that is
// not empty. A token is a word, or one other sign, with the space before it;
// further white space is a token of its own. All tokens together are the text.
func nextToken(text string) int {
	// Almost every token starts with a sign, or with one blank before it.
	if plain := text[0] == ' ' && len(text) > 1 && isSign(text[1]); !plain && !isSign(text[0]) {
		if space := leadingSpace(text); space > 0 {
			return space
		}
	}
	i := 0
	if text[0] == ' ' {
		i = 1
	}
	r, size := utf8.DecodeRuneInString(text[i:])
	i += size
	if !inWord(r) {
		return i
	}
	for runes := 1; i < len(text) && runes < longestToken; runes++ {
		r, size = utf8.DecodeRuneInString(text[i:])
		if !inWord(r) {
			break
		}
		i += size
	}
	return i
}

// isSign tells that a byte is ASCII and not white space.
func isSign(b byte) bool { return b > ' ' && b < utf8.RuneSelf }

// leadingSpace returns the length of the white space that is a token of its
// own: all of it but a last blank that belongs to the word behind.
func leadingSpace(text string) int {
	end := 0
	for i, r := range text {
		if !unicode.IsSpace(r) {
			if i > 0 && text[i-1] == ' ' {
				return i - 1
			}
			return i
		}
		end = i + utf8.RuneLen(r)
	}
	return end
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '\'' }

// appendTokens appends the tokens of text to dst; they share its memory.
func appendTokens(dst []string, text string) []string {
	for len(text) > 0 {
		n := nextToken(text)
		dst = append(dst, text[:n])
		text = text[n:]
	}
	return dst
}

// appendTokenIDs appends the numbers of the tokens of text to dst.
func appendTokenIDs(dst []uint32, text string) []uint32 {
	for len(text) > 0 {
		n := nextToken(text)
		dst = append(dst, tokenID(text[:n]))
		text = text[n:]
	}
	return dst
}

// tokenID is FNV-1a, without the sign bit, so that it fits every client's
// integers.
func tokenID(token string) uint32 {
	hash := uint32(2166136261)
	for i := range len(token) {
		hash = (hash ^ uint32(token[i])) * 16777619
	}
	return hash & 0x7fffffff
}
