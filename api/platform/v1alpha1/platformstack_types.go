package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
)

// PlatformStackSpec says which components there are, and what each needs.
//
// +kubebuilder:validation:XValidation:rule="self.components.all(c, self.components.exists_one(d, d.name == c.name))",message="two components have the same name; give each its own"
type PlatformStackSpec struct {
	// ServiceAccount with whose rights everything is done; the operator's own if
	// absent. To install an operator takes all the rights that this operator is
	// given, which Slipway doesn't hold itself.
	// +optional
	ServiceAccount *ServiceAccountReference `json:"serviceAccount,omitempty"`

	// Secrets of type kubernetes.io/dockerconfigjson. They are copied into the
	// namespace of each component and attached to its ServiceAccounts, kept in step
	// when they change, and used to pull bundles and charts.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	PullSecrets []PullSecret `json:"pullSecrets,omitempty"`

	// The components. Those that don't depend on each other go at the same time.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Components []Component `json:"components"`
}

// ServiceAccountReference names a ServiceAccount.
type ServiceAccountReference struct {
	// Name of the ServiceAccount.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="name must be a ServiceAccount's name"
	Name string `json:"name"`

	// Namespace of the ServiceAccount.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="namespace must be the ServiceAccount's namespace"
	Namespace string `json:"namespace"`
}

// PullSecret names a Secret with credentials of registries.
type PullSecret struct {
	// Name of the Secret, and of its copies.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="name must be a Secret's name"
	Name string `json:"name"`

	// Namespace of the Secret.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="namespace must be the Secret's namespace"
	Namespace string `json:"namespace"`
}

// Approval says whether an upgrade that loses something waits for someone.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type Approval string

// The approvals.
const (
	// ApprovalAutomatic upgrades at once.
	ApprovalAutomatic Approval = "Automatic"
	// ApprovalManual waits where fields or served versions of a definition go.
	ApprovalManual Approval = "Manual"
)

// Existing says what becomes of an installation that is there already.
//
// +kubebuilder:validation:Enum=Adopt;Leave
type Existing string

// The ways with what exists.
const (
	// ExistingAdopt makes objects that belong to nobody part of the component.
	ExistingAdopt Existing = "Adopt"
	// ExistingLeave takes the component as there, and touches nothing of it.
	ExistingLeave Existing = "Leave"
)

// Component is one thing that is installed: an operator, a chart, manifests. It
// becomes a Helm release of the component's name.
type Component struct {
	// Name of the component, and of its release.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must be lower-case letters, digits and hyphens, such as cert-manager"
	Name string `json:"name"`

	// Components that must be ready first.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=40
	// +listType=set
	DependsOn []string `json:"dependsOn,omitempty"`

	// Namespace of the release, which is made if it isn't there and never deleted;
	// the component's name if absent. Another one moves the component.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be a namespace's name: write lower-case letters, digits and hyphens"
	Namespace string `json:"namespace,omitempty"`

	// Where the component is from.
	Source Source `json:"source"`

	// Values of the chart, as in values.yaml; of a bundle, those that `slipway bundle
	// chart` writes. They win over valuesFrom. Manifests take none.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *runtime.RawExtension `json:"values,omitempty"`

	// ConfigMaps and Secrets with values; later ones win over earlier ones.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	ValuesFrom []componentsv1alpha1.ValuesReference `json:"valuesFrom,omitempty"`

	// Time in which the component must become ready after an install or upgrade.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(\\\\.[0-9]+)?(h|m|s|ms))+$') && duration(self) >= duration('1s') && duration(self) <= duration('30m')",message="timeout must be a time from 1s to 30m, such as 5m"
	Timeout string `json:"timeout,omitempty"`

	// Manual has an upgrade wait that removes or narrows fields of a custom resource
	// definition, until someone approves it.
	// +optional
	// +kubebuilder:default=Manual
	Approval Approval `json:"approval,omitempty"`

	// What becomes of an installation that someone else made. Objects of another
	// Helm release are never taken.
	// +optional
	// +kubebuilder:default=Leave
	Existing Existing `json:"existing,omitempty"`

	// What happens when an upgrade fails or doesn't become ready in its time.
	// +optional
	Remediation *componentsv1alpha1.Remediation `json:"remediation,omitempty"`

	// What happens when someone changes an object of the component.
	// +optional
	Drift *componentsv1alpha1.Drift `json:"drift,omitempty"`

	// What is done before the component is released, and once it is ready.
	// +optional
	Hooks *Hooks `json:"hooks,omitempty"`
}

// Source says where a component is from.
//
// +kubebuilder:validation:XValidation:rule="[has(self.bundle), has(self.chart), has(self.manifests)].filter(given, given).size() == 1",message="source must be exactly one of bundle, chart and manifests"
type Source struct {
	// An operator's bundle, as OLM takes it.
	// +optional
	Bundle *BundleSource `json:"bundle,omitempty"`
	// A Helm chart.
	// +optional
	Chart *ChartSource `json:"chart,omitempty"`
	// Plain manifests.
	// +optional
	Manifests *ManifestsSource `json:"manifests,omitempty"`
}

// BundleSource names an operator's bundle.
type BundleSource struct {
	// Image of the bundle, such as quay.io/org/operator-bundle:1.0. The command line
	// also takes a directory and an archive.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && !self.contains(' ')",message="image must be a bundle's image, such as quay.io/org/operator-bundle:1.0"
	Image string `json:"image"`

	// Digest of the image, as sha256:HEX. Another image is refused.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^sha256:[0-9a-f]{64}$')",message="digest must be sha256: and 64 hexadecimal digits, as status tells it"
	Digest string `json:"digest,omitempty"`

	// Public key in PEM with which the image must be signed, as cosign does it.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Key string `json:"key,omitempty"`

	// Objects to leave out: jq expressions such as .kind == "ConsoleCLIDownload".
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	Exclude []string `json:"exclude,omitempty"`

	// Namespaces that the operator looks after; all of them if absent and it can, else
	// its own.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	WatchNamespaces []string `json:"watchNamespaces,omitempty"`
}

// ChartSource names a Helm chart.
type ChartSource struct {
	// Where the chart is.
	Repository componentsv1alpha1.Repository `json:"repository"`

	// Name of the chart in its repository.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$')",message="name must be a chart's name such as istiod; its address goes to repository.url"
	Name string `json:"name"`

	// Version of the chart, or a constraint; the newest release if absent.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[vV0-9xX*<>=~^!][-A-Za-z0-9.+*<>=~^!|, ]*$')",message="version must be a chart's version such as 0.2.11, or a constraint such as ~0.2 or >=1.3 <2"
	Version string `json:"version,omitempty"`

	// Digest of the chart's archive, as sha256:HEX. Another archive is refused.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^sha256:[0-9a-f]{64}$')",message="digest must be sha256: and 64 hexadecimal digits, as status tells it"
	Digest string `json:"digest,omitempty"`
}

// ManifestsSource names plain manifests.
//
// +kubebuilder:validation:XValidation:rule="[has(self.path), has(self.image), has(self.url)].filter(given, given).size() == 1",message="manifests must be exactly one of path, image and url"
// +kubebuilder:validation:XValidation:rule="!has(self.url) || has(self.digest)",message="manifests from a url need their digest: write sha256: and what sha256sum says of the file"
// +kubebuilder:validation:XValidation:rule="!has(self.key) || has(self.image)",message="a signature is checked of an image only: remove key, or publish the manifests as an OCI artifact and write image"
type ManifestsSource struct {
	// Directory or file, where the engine runs: the operator's pod, or the laptop for
	// the command line.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:MinLength=1
	Path string `json:"path,omitempty"`

	// OCI artifact whose layers hold the manifests, such as
	// quay.io/org/manifests:1.0.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`

	// Address of a file, such as https://host/install.yaml.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^ ]+$')",message="url must be https://… or http://…"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[a-z]+://[^/]*@')",message="url must not hold credentials"
	URL string `json:"url,omitempty"`

	// Digest of the file, or of the image, as sha256:HEX.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="digest must be sha256: and 64 hexadecimal digits"
	Digest string `json:"digest,omitempty"`

	// Public key in PEM with which the image must be signed, as cosign does it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Key string `json:"key,omitempty"`

	// Version that the status tells for it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// Hooks are done in their order, each when the one before is done.
type Hooks struct {
	// Before the component is released.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(o, o.name == h.name))",message="two hooks have the same name; give each its own"
	Before []Hook `json:"before,omitempty"`
	// After the component is ready. What depends on the component waits for them.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(o, o.name == h.name))",message="two hooks have the same name; give each its own"
	After []Hook `json:"after,omitempty"`
}

// Hook is one step beside a component's release.
//
// +kubebuilder:validation:XValidation:rule="[has(self.apply), has(self.wait), has(self.patch), has(self.annotate)].filter(given, given).size() == 1",message="a hook must be exactly one of apply, wait, patch and annotate"
type Hook struct {
	// Name of the hook.
	// +kubebuilder:validation:MaxLength=12
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must be at most 12 lower-case letters, digits and hyphens"
	Name string `json:"name"`

	// Objects that shall be there. They are a release of their own,
	// COMPONENT-HOOK, which goes before the component does, and after it comes.
	// +optional
	Apply *ApplyHook `json:"apply,omitempty"`

	// An object that must be there and fulfil a condition.
	// +optional
	Wait *WaitHook `json:"wait,omitempty"`

	// A change of an object that someone else makes.
	// +optional
	Patch *PatchHook `json:"patch,omitempty"`

	// Annotations of an object that someone else makes.
	// +optional
	Annotate *AnnotateHook `json:"annotate,omitempty"`
}

// ApplyHook makes objects.
type ApplyHook struct {
	// The objects. Those without a namespace are made in the component's.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:EmbeddedResource
	// +kubebuilder:validation:items:XPreserveUnknownFields
	// +listType=atomic
	Objects []runtime.RawExtension `json:"objects"`
}

// ObjectReference names one object, of whatever kind.
type ObjectReference struct {
	// API version, such as apps/v1.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="apiVersion must be an API's version, such as apps/v1"
	APIVersion string `json:"apiVersion"`
	// Kind.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="kind must be an object's kind, such as Deployment"
	Kind string `json:"kind"`
	// Namespace; empty for an object of the whole cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Name.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="name must be the object's name"
	Name string `json:"name"`
}

// WaitHook waits for an object.
type WaitHook struct {
	ObjectReference `json:",inline"`

	// Type of the condition in the object's status that must be True. Absent: the
	// object is ready, as its kind tells it.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Condition string `json:"condition,omitempty"`

	// How long it may take before the component counts as failed. It goes on when the
	// condition comes true later.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(\\\\.[0-9]+)?(h|m|s|ms))+$') && duration(self) >= duration('1s') && duration(self) <= duration('2h')",message="timeout must be a time from 1s to 2h, such as 5m"
	Timeout string `json:"timeout,omitempty"`
}

// PatchHook changes an object once it is there.
type PatchHook struct {
	ObjectReference `json:",inline"`

	// What to change, as a JSON merge patch (RFC 7386).
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:XPreserveUnknownFields
	Patch runtime.RawExtension `json:"patch"`

	// Write it again whenever the object comes back or changes.
	// +optional
	Keep bool `json:"keep,omitempty"`
}

// AnnotateHook puts annotations on an object once it is there.
type AnnotateHook struct {
	ObjectReference `json:",inline"`

	// The annotations.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	Annotations map[string]string `json:"annotations"`

	// Write them again whenever the object comes back or changes.
	// +optional
	Keep bool `json:"keep,omitempty"`
}

// Phase says where a component is.
type Phase string

// The phases.
const (
	// PhaseWaiting waits for another component, or for someone.
	PhaseWaiting Phase = "Waiting"
	// PhaseInstalling is being installed for the first time.
	PhaseInstalling Phase = "Installing"
	// PhaseUpgrading is changed to what the spec says.
	PhaseUpgrading Phase = "Upgrading"
	// PhaseAwaitingApproval waits for someone to approve what is lost.
	PhaseAwaitingApproval Phase = "AwaitingApproval"
	// PhaseReady is as the spec says.
	PhaseReady Phase = "Ready"
	// PhaseLeft is there from elsewhere, and left alone.
	PhaseLeft Phase = "Left"
	// PhaseRolledBack is the last good revision again, after one that failed.
	PhaseRolledBack Phase = "RolledBack"
	// PhaseFailed goes on when the spec changes, or what stands in its way.
	PhaseFailed Phase = "Failed"
	// PhaseRemoving is being uninstalled.
	PhaseRemoving Phase = "Removing"
)

// ComponentStatus tells of one component.
type ComponentStatus struct {
	// Name of the component.
	Name string `json:"name"`
	// Namespace of its release.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Waiting, Installing, Upgrading, AwaitingApproval, Ready, Left, RolledBack,
	// Failed or Removing.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Why, in a word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Why, in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// Version that runs: the operator's, the chart's, or what manifests say.
	// +optional
	Version string `json:"version,omitempty"`
	// Newest revision of the release.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// Digest of the bundle, the chart or the manifests that were found.
	// +optional
	Digest string `json:"digest,omitempty"`
	// Components that it waits for.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	WaitsFor []string `json:"waitsFor,omitempty"`
	// What someone must approve before it is upgraded.
	// +optional
	Approval *ApprovalStatus `json:"approval,omitempty"`
	// Hooks that were begun, and whether they are done.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Hooks []HookStatus `json:"hooks,omitempty"`
}

// ApprovalStatus says what an upgrade would lose.
type ApprovalStatus struct {
	// Digest of the upgrade: what an approval names.
	Digest string `json:"digest"`
	// What is lost, a line each; the first of them where there are many.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Changes []string `json:"changes,omitempty"`
}

// HookStatus tells of one hook.
type HookStatus struct {
	// Name of the hook.
	Name string `json:"name"`
	// Digest of the hook and of what it was run for: another one has it run again.
	Digest string `json:"digest"`
	// Since when it is waited for.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Done is true once it was done.
	// +optional
	Done bool `json:"done,omitempty"`
}

// StackRelease names one release that was made, or is about to be.
type StackRelease struct {
	// Component that it is for.
	Component string `json:"component"`
	// Name of the release.
	Name string `json:"name"`
	// Namespace of the release.
	Namespace string `json:"namespace"`
}

// PlatformStackStatus says what is there and what is wrong.
type PlatformStackStatus struct {
	// Generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready is the summary.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// How many components are ready, as 3/4.
	// +optional
	Ready string `json:"ready,omitempty"`

	// The components, in the order of the spec; those that are removed come last.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Components []ComponentStatus `json:"components,omitempty"`

	// Where releases are, in the order in which they were made. It is written before
	// they are, so that none is ever forgotten.
	// +optional
	// +kubebuilder:validation:MaxItems=1088
	// +listType=atomic
	Releases []StackRelease `json:"releases,omitempty"`
}

// PlatformStack installs what a cluster needs before models can be served: its
// operators and their settings, in their order.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=platformstacks,singular=platformstack,shortName=pstack,categories=llm-all,scope=Cluster
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="a PlatformStack's name is a label too: write at most 63 characters"
type PlatformStack struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PlatformStackSpec `json:"spec"`
	// +optional
	Status PlatformStackStatus `json:"status,omitempty"`
}

// PlatformStackList is a list of PlatformStacks.
//
// +kubebuilder:object:root=true
type PlatformStackList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlatformStack `json:"items"`
}
