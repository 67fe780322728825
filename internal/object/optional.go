package object

// OptionalKind is a kind that a cluster may or may not serve, and that is used
// where it is.
type OptionalKind struct {
	Group, Resource, Kind string
	// Versions that can be written, the preferred one first.
	Versions []string
}

// Definition is the name of the kind's custom resource definition.
func (k OptionalKind) Definition() string { return k.Resource + "." + k.Group }
