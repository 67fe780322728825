package object

// The recommended labels of Kubernetes
// (kubernetes.io/docs/concepts/overview/working-with-objects/common-labels).
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelVersion   = "app.kubernetes.io/version"
	LabelManagedBy = "app.kubernetes.io/managed-by"
)

// ManagedBy is the value of LabelManagedBy on everything that Slipway makes.
// Caches of owned kinds hold only objects that carry it.
const ManagedBy = "slipway"

// How Helm marks the objects of a release, beside LabelManagedBy
// (helm.sh/helm, pkg/action/validate.go).
const (
	ManagedByHelm              = "Helm"
	AnnotationReleaseName      = "meta.helm.sh/release-name"
	AnnotationReleaseNamespace = "meta.helm.sh/release-namespace"
)

// Slipway's own labels and annotations.
const (
	// LabelOwnerUID carries the owner's UID on an object that can't refer to its
	// owner: one in another namespace, or one of the whole cluster.
	LabelOwnerUID = "slipway.dev/owner-uid"
	// AnnotationOwner names that owner as Ref.String does, for people and to find
	// the owner of a changed object.
	AnnotationOwner = "slipway.dev/owner"
	// AnnotationAdopt set to "true" on an object that nobody controls hands it
	// over to the resource that wants an object of its name.
	AnnotationAdopt = "slipway.dev/adopt"
)

// Identity is what the labels of an object are made of. Empty fields give no
// label; values that aren't valid ones are shortened with LabelValue.
type Identity struct {
	Name      string // what runs, such as "vllm"
	Instance  string // the resource that it was made for
	Component string // its part in the whole, such as "server"
	PartOf    string // the whole, such as "llm"
}

// Labels are the labels of an object, LabelManagedBy among them.
func (i Identity) Labels() map[string]string {
	labels := i.Selector()
	labels[LabelManagedBy] = ManagedBy
	set(labels, LabelPartOf, i.PartOf)
	return labels
}

// Selector is the part of the labels by which pods are found. It must never
// change for one resource: a Deployment's selector is immutable.
func (i Identity) Selector() map[string]string {
	labels := make(map[string]string, 5)
	set(labels, LabelName, i.Name)
	set(labels, LabelInstance, i.Instance)
	set(labels, LabelComponent, i.Component)
	return labels
}

func set(labels map[string]string, key, value string) {
	if value != "" {
		labels[key] = LabelValue(value)
	}
}
