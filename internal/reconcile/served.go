package reconcile

import (
	"context"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/object"
)

// definitionKind is the kind that says which custom kinds a cluster serves.
var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Definition is an empty custom resource definition of which only the metadata is
// read: what to watch in order to learn that an optional kind came or went.
func Definition() *metav1.PartialObjectMetadata {
	made := &metav1.PartialObjectMetadata{}
	made.SetGroupVersionKind(definitionKind)
	return made
}

// Served knows which of a few optional kinds a cluster serves. It reads their
// definitions once, and again only after Changed. It is safe for concurrent use.
type Served struct {
	// Server reads from the API server itself.
	Server client.Reader
	Kinds  []object.OptionalKind

	mu    sync.Mutex
	known map[string]string // definition -> version; absent: not known
}

// Concerns tells whether a definition is one of the optional kinds'.
func (s *Served) Concerns(definition string) bool {
	return slices.ContainsFunc(s.Kinds, func(k object.OptionalKind) bool { return k.Definition() == definition })
}

// Changed forgets what was known of a definition.
func (s *Served) Changed(definition string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, definition)
}

// Versions gives for each kind, in the order of Kinds, the version to write, or
// nothing where the cluster doesn't serve one of them.
func (s *Served) Versions(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions := make([]string, len(s.Kinds))
	for i, kind := range s.Kinds {
		version, known := s.known[kind.Definition()]
		if !known {
			var err error
			if version, err = s.read(ctx, kind); err != nil {
				return nil, err
			}
			if s.known == nil {
				s.known = map[string]string{}
			}
			s.known[kind.Definition()] = version
		}
		versions[i] = version
	}
	return versions, nil
}

// read asks for one definition. It counts only when it is established: before
// that the API server doesn't serve the kind, and a later change tells of it.
func (s *Served) read(ctx context.Context, kind object.OptionalKind) (string, error) {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(definitionKind)
	err := s.Server.Get(ctx, client.ObjectKey{Name: kind.Definition()}, definition)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return versionOf(kind, definition), nil
}

// versionOf is the version to write of those that a definition offers, or nothing.
func versionOf(kind object.OptionalKind, definition *unstructured.Unstructured) string {
	if definition.GetDeletionTimestamp() != nil || !established(definition) {
		return ""
	}
	offered, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, wanted := range kind.Versions {
		for _, each := range offered {
			if v, is := each.(map[string]any); is && v["name"] == wanted && v["served"] == true {
				return wanted
			}
		}
	}
	return ""
}

func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(each any) bool {
		c, is := each.(map[string]any)
		return is && c["type"] == "Established" && c["status"] == "True"
	})
}
