// Package olm turns an operator's bundle (registry+v1, the format of OpenShift's
// Operator Lifecycle Manager) into the objects that OLM would create of it, for a
// cluster without OLM. It is pure: it fetches no bundle and writes no object.
//
// What OLM adds, and this package does: ServiceAccounts, Roles and bindings from
// the permissions; the annotation olm.targetNamespaces, from which operators read
// which namespaces they watch; OPERATOR_CONDITION_NAME in each container;
// Services, certificates and configurations of webhooks, conversion webhooks in
// definitions. What is left out, because only OLM itself reads it: owner labels,
// hashes, and the annotation alm-examples on pods.
//
// Sources: operator-registry's bundle format, and operator-lifecycle-manager's
// design documents on operator groups, install modes and webhooks.
package olm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/internal/object"
)

// AllNamespaces among Options.Watch means every namespace.
const AllNamespaces = ""

// Options say where and for whom an operator is installed.
type Options struct {
	// Namespace to install into.
	Namespace string
	// Watch are the namespaces that the operator looks after; AllNamespaces for
	// every one. Empty: all if the bundle supports that, else its own.
	Watch []string
	// Certificates of its webhooks.
	Certificates Certificates
}

// Objects are what OLM would create, in the order of applying, the install
// namespace itself left out. Equal bundles and options give equal objects. An
// error is one line that says what to write instead.
func (b *Bundle) Objects(options Options) ([]*unstructured.Unstructured, error) {
	if problems := validation.IsDNS1123Label(options.Namespace); len(problems) > 0 {
		return nil, fmt.Errorf("%q isn't a name for a namespace: %s", options.Namespace, problems[0])
	}
	targets, err := b.targets(options)
	if err != nil {
		return nil, err
	}
	r := render{bundle: b, namespace: options.Namespace, targets: targets, certificates: options.Certificates}
	objects, err := object.FromTyped(slices.Concat(r.accounts(), r.permissions(), r.deployments(), r.webhooks())...)
	if err != nil {
		return nil, err
	}
	objects = slices.Concat(r.definitions(), objects, r.certificateObjects(), r.others())
	return sorted(b.CSV.Name, objects)
}

// render is one rendering.
type render struct {
	bundle       *Bundle
	namespace    string
	targets      []string
	certificates Certificates
}

func (r render) all() bool { return slices.Equal(r.targets, []string{AllNamespaces}) }

// strategy is what the ClusterServiceVersion says about installing.
func (r render) strategy() v1alpha1.StrategyDetailsDeployment {
	return r.bundle.CSV.Spec.InstallStrategy.StrategySpec
}

// sorted puts objects into the order of applying. One that the bundle brings and
// that OLM would also make is the bundle's: it comes later in the list.
func sorted(name string, objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	last := map[object.Ref]int{}
	for i, each := range objects {
		ref := object.Of(each)
		if err := ref.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		last[ref.Identity()] = i
	}
	kept := make([]*unstructured.Unstructured, 0, len(last))
	for i, each := range objects {
		if last[object.Of(each).Identity()] == i {
			kept = append(kept, each)
		}
	}
	slices.SortStableFunc(kept, func(a, b *unstructured.Unstructured) int { return object.Compare(object.Of(a), object.Of(b)) })
	return kept, nil
}

// modes are the install modes with what to write for each.
var modes = []struct {
	mode v1alpha1.InstallModeType
	how  string
}{
	{v1alpha1.InstallModeTypeAllNamespaces, "AllNamespaces (--watch-namespace '*')"},
	{v1alpha1.InstallModeTypeOwnNamespace, "OwnNamespace (--watch-namespace with the namespace of -n)"},
	{v1alpha1.InstallModeTypeSingleNamespace, "SingleNamespace (--watch-namespace with one other namespace)"},
	{v1alpha1.InstallModeTypeMultiNamespace, "MultiNamespace (--watch-namespace several times)"},
}

func (b *Bundle) supports(mode v1alpha1.InstallModeType) bool {
	return slices.ContainsFunc(b.CSV.Spec.InstallModes, func(each v1alpha1.InstallMode) bool {
		return each.Type == mode && each.Supported
	})
}

// targets are the namespaces that the operator watches, if it supports that.
func (b *Bundle) targets(options Options) ([]string, error) {
	watch := slices.Compact(slices.Sorted(slices.Values(options.Watch)))
	if len(watch) == 0 {
		switch {
		case b.supports(v1alpha1.InstallModeTypeAllNamespaces):
			return []string{AllNamespaces}, nil
		case b.supports(v1alpha1.InstallModeTypeOwnNamespace):
			return []string{options.Namespace}, nil
		default:
			return nil, b.unsupported("watching all namespaces, or its own only")
		}
	}
	if len(watch) > 1 && watch[0] == AllNamespaces {
		return nil, fmt.Errorf("every namespace, and %s beside it, can't be watched; name one or the other", watch[1])
	}
	for _, each := range watch {
		if problems := validation.IsDNS1123Label(each); each != AllNamespaces && len(problems) > 0 {
			return nil, fmt.Errorf("%q isn't a name for a namespace to watch: %s", each, problems[0])
		}
	}
	if mode := modeOf(watch, options.Namespace); !b.supports(mode) {
		return nil, b.unsupported(string(mode))
	}
	if len(watch) > 1 && slices.Contains(watch, options.Namespace) && !b.supports(v1alpha1.InstallModeTypeOwnNamespace) {
		return nil, b.unsupported("OwnNamespace, so " + options.Namespace + " can't be among the namespaces")
	}
	return watch, nil
}

func modeOf(watch []string, namespace string) v1alpha1.InstallModeType {
	switch {
	case len(watch) > 1:
		return v1alpha1.InstallModeTypeMultiNamespace
	case watch[0] == AllNamespaces:
		return v1alpha1.InstallModeTypeAllNamespaces
	case watch[0] == namespace:
		return v1alpha1.InstallModeTypeOwnNamespace
	default:
		return v1alpha1.InstallModeTypeSingleNamespace
	}
}

func (b *Bundle) unsupported(what string) error {
	var supported []string
	for _, each := range modes {
		if b.supports(each.mode) {
			supported = append(supported, each.how)
		}
	}
	return fmt.Errorf("%s doesn't support %s; it supports %s", b.CSV.Name, what, cmp.Or(strings.Join(supported, ", "), "no install mode at all"))
}

// joined is a name of all its parts. They stay whole wherever Kubernetes takes that,
// which for roles and webhooks is more than a label takes, so that a chart can put
// another namespace among them.
func joined(parts ...string) string {
	whole := strings.Join(parts, "-")
	if len(validation.IsDNS1123Subdomain(whole)) == 0 {
		return whole
	}
	return object.NameWithin(validation.DNS1123SubdomainMaxLength, parts...)
}
