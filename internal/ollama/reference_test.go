package ollama_test

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/ollama"
)

func TestReferences(t *testing.T) {
	for text, want := range map[string]string{
		"llama2":                                   "llama2:latest",
		"llama2:7b":                                "llama2:7b",
		"library/llama2":                           "llama2:latest",
		"team/mine:v1":                             "team/mine:v1",
		"registry.ollama.ai/library/llama2:7b":     "llama2:7b",
		"Registry.Ollama.AI/Library/llama2":        "llama2:latest",
		"hf.co/team/Model-GGUF:Q4_K_M":             "hf.co/team/Model-GGUF:Q4_K_M",
		"models.example:5000/library/tinyllama":    "models.example:5000/library/tinyllama:latest",
		"http://10.0.0.1:5000/library/tinyllama:1": "10.0.0.1:5000/library/tinyllama:1",
	} {
		reference, err := ollama.ParseReference(text)
		if err != nil || reference.String() != want {
			t.Errorf("%s is %q, %v; want %q", text, reference, err, want)
			continue
		}
		if reference.Insecure != strings.HasPrefix(text, "http://") {
			t.Errorf("%s: insecure is %v", text, reference.Insecure)
		}
		if !reference.Named(want) || !reference.Named(strings.ToUpper(want)) {
			t.Errorf("%s isn't %s", text, want)
		}
	}
	llama, err := ollama.ParseReference("llama2:7b")
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"llama2", "team/llama2:7b", "hf.co/library/llama2:7b", "llama:7b", "", "a/b/c/d"} {
		if llama.Named(other) {
			t.Errorf("llama2:7b is %q", other)
		}
	}
}

func TestReferencesThatAreNone(t *testing.T) {
	for text, says := range map[string]string{
		"":                           "the name has 1 to 80 characters",
		"llama2:":                    "the tag has 1 to 80",
		":7b":                        "the name has 1 to 80",
		"-llama":                     "begins with a letter",
		"llama 2":                    `not " "`,
		"llama2@sha256:abc":          "not by digest",
		"models.example/llama2":      "HOST/NAMESPACE/NAME:TAG",
		"localhost:5000/llama2":      "HOST/NAMESPACE/NAME:TAG",
		"a/b/c/d":                    "exactly one namespace",
		"https://llama2":             "HOST/NAMESPACE/NAME:TAG",
		"ftp://h/n/m":                "not ftp://",
		"../library/llama2":          "registry's host",
		"h/../llama2":                "namespace",
		"models.example/a.b/llama2":  "a namespace has",
		strings.Repeat("x", 81):      "not 81",
		strings.Repeat("x", 1000):    "at most 700 bytes",
		"llama2:7b\n":                "a tag has",
		"llama2:" + "ü":              "a tag has",
		"models.example//library/l2": "exactly one namespace",
	} {
		_, err := ollama.ParseReference(text)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want %q", text, err, says)
		}
	}
}

// FuzzParseReference holds that the normal form means the same and is its own
// normal form.
func FuzzParseReference(f *testing.F) {
	for _, text := range []string{"llama2", "llama2:7b", "team/mine:v1", "http://h:1/n/m:t", "library/a", "REGISTRY.ollama.ai/n/m"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := ollama.ParseReference(text)
		if err != nil {
			return
		}
		second, err := ollama.ParseReference(first.String())
		if err != nil {
			t.Fatalf("the normal form %q of %q is refused: %v", first, text, err)
		}
		if !first.Equal(second) || first.String() != second.String() {
			t.Errorf("%q becomes %q, and that %q", text, first, second)
		}
	})
}
