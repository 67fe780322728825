package ollama

import (
	"cmp"
	"fmt"
	"strings"
)

// What a reference leaves out, as Ollama fills it in.
const (
	DefaultHost      = "registry.ollama.ai"
	DefaultNamespace = "library"
	DefaultTag       = "latest"
)

// maxReference bounds what is parsed, in bytes: the parts' bounds together.
const maxReference = 700

// Reference names a model: [HOST[:PORT]/NAMESPACE/]NAME[:TAG], or
// [NAMESPACE/]NAME[:TAG] of the default registry.
type Reference struct {
	Host, Namespace, Name, Tag string
	// Insecure says that the reference was written with http://: its registry
	// speaks plain HTTP. Ollama wants to hear that beside the name.
	Insecure bool
}

// ParseReference reads a model's name as Ollama does and fills in what it leaves
// out. The error says what to write instead.
func ParseReference(text string) (Reference, error) {
	if len(text) > maxReference {
		return Reference{}, fmt.Errorf("a model's name has at most %d bytes", maxReference)
	}
	r := Reference{Host: DefaultHost, Namespace: DefaultNamespace, Tag: DefaultTag}
	rest := text
	scheme, after, hasScheme := strings.Cut(text, "://")
	if hasScheme {
		if scheme != "http" && scheme != "https" {
			return Reference{}, fmt.Errorf("%q: a registry is reached with https:// (the default) or http://, not %s://", text, scheme)
		}
		rest, r.Insecure = after, scheme == "http"
	}
	if strings.Contains(rest, "@") {
		return Reference{}, fmt.Errorf("%q: Ollama pulls by tag, not by digest; write NAME:TAG", text)
	}
	// The last colon begins a tag unless a slash follows: then it is a port's.
	if at := strings.LastIndex(rest, ":"); at > strings.LastIndex(rest, "/") {
		rest, r.Tag = rest[:at], rest[at+1:]
	}
	parts := strings.Split(rest, "/")
	switch {
	case len(parts) == 3:
		r.Host, r.Namespace, r.Name = parts[0], parts[1], parts[2]
	case hasScheme || len(parts) > 3 || len(parts) == 2 && strings.ContainsAny(parts[0], ".:"):
		return Reference{}, fmt.Errorf("%q: a model of another registry is HOST/NAMESPACE/NAME:TAG, with exactly one namespace (as in HOST/%s/NAME)", text, DefaultNamespace)
	case len(parts) == 2:
		r.Namespace, r.Name = parts[0], parts[1]
	default:
		r.Name = parts[0]
	}
	if err := r.check(); err != nil {
		return Reference{}, fmt.Errorf("%q is no model's name: %w", text, err)
	}
	return r, nil
}

// check holds the parts to Ollama's rules (its types/model, Name).
func (r Reference) check() error {
	return cmp.Or(
		part("registry's host", r.Host, 350, "-_.:"),
		part("namespace", r.Namespace, 80, "-_"),
		part("name", r.Name, 80, "-_."),
		part("tag", r.Tag, 80, "-_."),
	)
}

func part(what, text string, longest int, marks string) error {
	if text == "" || len(text) > longest {
		return fmt.Errorf("the %s has 1 to %d characters, not %d", what, longest, len(text))
	}
	for i := range len(text) {
		c := text[i]
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
		if alphanumeric || i > 0 && strings.IndexByte(marks, c) >= 0 {
			continue
		}
		return fmt.Errorf("a %s has letters, digits and any of %q, and begins with a letter, a digit or _; not %q", what, marks, text[i:i+1])
	}
	return nil
}

// String is the normal form, as Ollama lists the model: without the default
// registry and namespace, always with the tag.
func (r Reference) String() string {
	name := r.Name + ":" + r.Tag
	switch {
	case !strings.EqualFold(r.Host, DefaultHost):
		return r.Host + "/" + r.Namespace + "/" + name
	case !strings.EqualFold(r.Namespace, DefaultNamespace):
		return r.Namespace + "/" + name
	}
	return name
}

// Equal says whether two references name the same model for Ollama, which
// doesn't tell upper from lower case.
func (r Reference) Equal(other Reference) bool {
	return strings.EqualFold(r.Host, other.Host) && strings.EqualFold(r.Namespace, other.Namespace) &&
		strings.EqualFold(r.Name, other.Name) && strings.EqualFold(r.Tag, other.Tag)
}

// Named says whether text, as a server lists it, names the same model.
func (r Reference) Named(text string) bool {
	other, err := ParseReference(text)
	return err == nil && r.Equal(other)
}
