package model

import (
	"fmt"
	"slices"
	"strings"
)

// vocabulary is the model's tokens and, for each, the state that it leads to.
type vocabulary struct {
	tokens []string
	types  []int32
	states []int
	// follows gives each state the token that is said next.
	follows map[int]int
}

// token adds a token that leads to a state and returns its number.
// llama.cpp wants each text once.
func (v *vocabulary) token(text string, kind int32, state int) int {
	if slices.Contains(v.tokens, text) {
		panic(fmt.Sprintf("the token %q is there already; a sentence has different words of two letters or more", text))
	}
	v.tokens = append(v.tokens, text)
	v.types = append(v.types, kind)
	v.states = append(v.states, state)
	return len(v.tokens) - 1
}

// The states of what a prompt ends in. A word of a sentence has a state of its
// own.
const (
	beforeSentence = iota
	beforeLoop
	firstWord
)

// words are the tokens of a sentence as they are said: with a space before all
// but the first.
func words(sentence string) []string {
	list := strings.Fields(sentence)
	for i := 1; i < len(list); i++ {
		list[i] = " " + list[i]
	}
	return list
}

// newVocabulary makes the tokens for one sentence.
func newVocabulary(sentence string) vocabulary {
	v := vocabulary{follows: map[int]int{}}
	v.token("<s>", controlToken, beforeSentence)
	end := v.token("</s>", controlToken, beforeSentence)
	for b := range 256 {
		v.token(string(visible(byte(b))), normalToken, beforeSentence)
	}
	state := firstWord
	before := beforeSentence
	for _, word := range words(sentence) {
		v.follows[before] = v.token(spell(word), normalToken, state)
		before = state
		state++
	}
	v.follows[before] = end
	// Two words by turns: a server takes thirty times the same for a fault.
	v.token(Loop, userDefinedToken, beforeLoop)
	v.follows[beforeLoop] = v.token(spell(" round"), normalToken, state)
	v.follows[state] = v.token(spell(" and"), normalToken, beforeLoop)
	if state >= width {
		panic(fmt.Sprintf("a sentence of %d words; the model has %d states", len(words(sentence)), width))
	}
	return v
}

// visible is the character that GPT-2's vocabularies write for a byte: the byte
// itself where it is printable, and a letter from U+0100 on in order where not.
func visible(b byte) rune {
	printable := func(c int) bool {
		return c >= '!' && c <= '~' || c >= 0xa1 && c <= 0xac || c >= 0xae && c <= 0xff
	}
	if printable(int(b)) {
		return rune(b)
	}
	hidden := 0
	for c := range int(b) {
		if !printable(c) {
			hidden++
		}
	}
	return rune(0x100 + hidden)
}

// spell writes a text as GPT-2's vocabularies do.
func spell(word string) string {
	var out strings.Builder
	for i := range len(word) {
		out.WriteRune(visible(word[i]))
	}
	return out.String()
}

// chain is the file of a model that says a sentence.
func chain(sentence string, context uint32) []byte {
	v := newVocabulary(sentence)
	var f file
	f.set("general.architecture", "llama")
	f.set("general.name", "one sentence")
	f.set("llama.context_length", context)
	f.set("llama.embedding_length", uint32(width))
	f.set("llama.block_count", uint32(blocks))
	f.set("llama.feed_forward_length", uint32(width))
	f.set("llama.attention.head_count", uint32(heads))
	f.set("llama.attention.head_count_kv", uint32(1))
	f.set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	f.set("llama.rope.dimension_count", uint32(keyWidth))
	f.set("llama.rope.freq_base", float32(10000))
	f.set("tokenizer.ggml.model", "gpt2")
	f.set("tokenizer.ggml.pre", "gpt-2")
	f.set("tokenizer.ggml.tokens", v.tokens)
	f.set("tokenizer.ggml.token_type", v.types)
	f.set("tokenizer.ggml.merges", []string{})
	f.set("tokenizer.ggml.bos_token_id", uint32(0))
	f.set("tokenizer.ggml.eos_token_id", uint32(1))
	f.set("tokenizer.ggml.add_bos_token", true)

	embedding := make([]float32, len(v.tokens)*width)
	output := make([]float32, len(v.tokens)*width)
	for token, state := range v.states {
		embedding[token*width+state] = 1
	}
	for state, token := range v.follows {
		output[token*width+state] = sure
	}
	f.add("token_embd.weight", width, embedding)
	for block := range blocks {
		name := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", block, part) }
		zeros := func(part string, rows int) { f.add(name(part), width, make([]float32, width*rows)) }
		f.add(name("attn_norm"), width, ones())
		zeros("attn_q", width)
		zeros("attn_k", keyWidth)
		zeros("attn_v", keyWidth)
		zeros("attn_output", width)
		f.add(name("ffn_norm"), width, ones())
		zeros("ffn_gate", width)
		zeros("ffn_up", width)
		zeros("ffn_down", width)
	}
	f.add("output_norm.weight", width, ones())
	f.add("output.weight", width, output)
	return f.bytes()
}

func ones() []float32 {
	list := make([]float32, width)
	for i := range list {
		list[i] = 1
	}
	return list
}
