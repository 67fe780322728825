package status

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Target is what a user asks about.
type Target struct {
	// Words are the arguments: nothing, KIND, KIND/NAME or KIND NAME.
	Words         []string
	Namespace     string
	AllNamespaces bool
}

// Answer is what there is to show: the tree of one resource, or many resources
// without what is below them.
type Answer struct {
	Tree *Node
	Flat []*Node

	// scopes are what a change of the answer would be seen in; those of a tree
	// are in the tree.
	scopes []scope
}

// Ask reads what a target asks about.
func (r *Reader) Ask(ctx context.Context, target Target) (Answer, error) {
	word, name, err := target.split()
	if err != nil {
		return Answer{}, err
	}
	namespace := target.Namespace
	if target.AllNamespaces {
		namespace = ""
	}
	if word == "" {
		return r.flat(ctx, listed(), namespace)
	}
	mapping, err := resolve(r.Mapper, word)
	if err != nil {
		return Answer{}, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	if name == "" {
		return r.flat(ctx, []schema.GroupVersionKind{mapping.GroupVersionKind}, namespace)
	}
	tree, err := r.Tree(ctx, mapping.GroupVersionKind, client.ObjectKey{Namespace: namespace, Name: name})
	return Answer{Tree: tree}, err
}

func (r *Reader) flat(ctx context.Context, wanted []schema.GroupVersionKind, namespace string) (Answer, error) {
	nodes, err := r.Flat(ctx, wanted, namespace)
	answer := Answer{Flat: nodes}
	for _, each := range wanted {
		answer.scopes = append(answer.scopes, scope{each, namespace})
	}
	return answer, err
}

func (t Target) split() (kind, name string, err error) {
	switch len(t.Words) {
	case 0:
		return "", "", nil
	case 1:
		kind, name, _ = strings.Cut(t.Words[0], "/")
	default:
		kind, name = t.Words[0], t.Words[1]
	}
	if kind == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%q names no resource; write KIND/NAME, as in llmdeployment/chat", strings.Join(t.Words, " "))
	}
	if t.AllNamespaces && name != "" {
		return "", "", fmt.Errorf("a resource named %s can be in one namespace only; write -n NAMESPACE in place of -A", name)
	}
	return kind, name, nil
}
