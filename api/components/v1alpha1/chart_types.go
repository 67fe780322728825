package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// ChartSpec says how one chart is released. What is absent is the default of
// that chart (docs/llmd.md has the table).
type ChartSpec struct {
	// Release the chart. False uninstalls this release and no other.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// Version of the chart, or a constraint: 0.2.11, ~0.2, ">=1.3 <2". The newest
	// release if absent and the chart isn't the default one.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[vV0-9xX*<>=~^!][-A-Za-z0-9.+*<>=~^!|, ]*$')",message="version must be a chart's version such as 0.2.11, or a constraint such as ~0.2 or >=1.3 <2"
	Version string `json:"version,omitempty"`

	// Where the chart is.
	// +optional
	Repository *Repository `json:"repository,omitempty"`

	// Name of the chart in its repository.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$')",message="chart must be a chart's name such as llm-d-modelservice; its address goes to repository.url"
	Chart string `json:"chart,omitempty"`

	// Digest of the chart's archive, as sha256:HEX. Another archive is refused.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^sha256:[0-9a-f]{64}$')",message="digest must be sha256: and 64 hexadecimal digits, as status tells it for a release"
	Digest string `json:"digest,omitempty"`

	// Name of the release.
	// +optional
	// +kubebuilder:validation:MaxLength=53
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="releaseName must be lower-case letters, digits and hyphens, such as llmd-infra"
	ReleaseName string `json:"releaseName,omitempty"`

	// Namespace of the release; spec.namespace if absent.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be a namespace's name: write lower-case letters, digits and hyphens"
	Namespace string `json:"namespace,omitempty"`

	// Values of the chart, as in values.yaml. They win over valuesFrom. A key with
	// dots and a text as its value is a path, as helm's --set takes it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *runtime.RawExtension `json:"values,omitempty"`

	// ConfigMaps and Secrets with values; later ones win over earlier ones.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`

	// Time in which the release must become ready after an install or upgrade, and
	// in which a hook must end.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(\\\\.[0-9]+)?(h|m|s|ms))+$') && duration(self) >= duration('1s') && duration(self) <= duration('30m')",message="timeout must be a time from 1s to 30m, such as 5m"
	Timeout string `json:"timeout,omitempty"`

	// Run the chart's tests after each install and upgrade.
	// +optional
	Test bool `json:"test,omitempty"`

	// What happens when an upgrade fails or doesn't become ready in its time.
	// +optional
	Remediation *Remediation `json:"remediation,omitempty"`

	// What happens when someone changes an object of the release.
	// +optional
	Drift *Drift `json:"drift,omitempty"`

	// What becomes of the definitions in the chart's crds directory. None is ever
	// deleted.
	// +optional
	// +kubebuilder:default=CreateReplace
	CRDs CRDsPolicy `json:"crds,omitempty"`

	// Take over fields that another manager has set.
	// +optional
	ForceConflicts bool `json:"forceConflicts,omitempty"`

	// Take over objects that exist and belong to no release.
	// +optional
	TakeOwnership bool `json:"takeOwnership,omitempty"`
}

// Repository is where charts come from.
//
// +kubebuilder:validation:XValidation:rule="!has(self.secretRef) || has(self.url)",message="secretRef needs repository.url beside it: credentials are for one repository only"
type Repository struct {
	// Address: https://… or http://… with an index.yaml, oci://…, or a directory in
	// the operator's pod as file:///… or /….
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^(https?://|oci([+]http)?://|file:///|/)[^ ]+$')",message="url must be https://…, http://…, oci://…, file:///… or a directory such as /charts"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[a-z+]+://[^/]*@')",message="url must not hold credentials; write them to a Secret and name it in repository.secretRef"
	URL string `json:"url,omitempty"`

	// Secret with username and password, or token, or of type
	// kubernetes.io/dockerconfigjson.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`

	// Secret with the certificate authority of the repository, under ca.crt.
	// +optional
	CASecretRef *SecretReference `json:"caSecretRef,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="name must be a Secret's name"
	Name string `json:"name"`

	// Namespace of the Secret; the release's if absent.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// ValuesReference names values in a ConfigMap or a Secret.
type ValuesReference struct {
	// ConfigMap or Secret.
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind"`

	// Name of the ConfigMap or Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="name must be a ConfigMap's or a Secret's name"
	Name string `json:"name"`

	// Namespace of the ConfigMap or Secret; the release's if absent.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// Key in the ConfigMap or Secret.
	// +optional
	// +kubebuilder:default=values.yaml
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`

	// Path of the one value that the key holds, such as auth.token or hosts[0].
	// Without it the key holds a values file.
	// +optional
	// +kubebuilder:validation:MaxLength=250
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[^.\\\\[\\\\] ][^ ]*$')",message="targetPath must be a path such as auth.token or hosts[0]"
	TargetPath string `json:"targetPath,omitempty"`

	// Go on without it where it isn't there.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// RemediationStrategy says what follows a failed upgrade.
//
// +kubebuilder:validation:Enum=Rollback;Retry;Stop
type RemediationStrategy string

// The strategies.
const (
	// RemediationRollback goes back to the last good revision, and stays there until
	// the spec changes.
	RemediationRollback RemediationStrategy = "Rollback"
	// RemediationRetry tries again, as often as retries says.
	RemediationRetry RemediationStrategy = "Retry"
	// RemediationStop leaves it as it is until the spec changes.
	RemediationStop RemediationStrategy = "Stop"
)

// Remediation says what follows a failed install or upgrade.
type Remediation struct {
	// Rollback, Retry or Stop.
	// +optional
	// +kubebuilder:default=Rollback
	Strategy RemediationStrategy `json:"strategy,omitempty"`

	// How often a failed install or upgrade is tried again first: 3 times for Retry
	// and not at all for the others, if absent.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 5",message="retries must be a whole number from 0 to 5: ten revisions are kept, the last good one among them"
	Retries *int32 `json:"retries,omitempty"`
}

// DriftMode says what follows a change of a released object by someone else.
//
// +kubebuilder:validation:Enum=Correct;Report;Ignore
type DriftMode string

// The modes.
const (
	// DriftCorrect puts the object back.
	DriftCorrect DriftMode = "Correct"
	// DriftReport says which objects differ, and leaves them.
	DriftReport DriftMode = "Report"
	// DriftIgnore doesn't look.
	DriftIgnore DriftMode = "Ignore"
)

// Drift says what follows a change of a released object by someone else.
type Drift struct {
	// Correct, Report or Ignore.
	// +optional
	// +kubebuilder:default=Correct
	Mode DriftMode `json:"mode,omitempty"`

	// What others may change.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Ignore []DriftIgnoreRule `json:"ignore,omitempty"`
}

// DriftIgnoreRule names fields that others may change.
type DriftIgnoreRule struct {
	// Fields as JSON pointers (RFC 6901), such as /spec/replicas.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	// +kubebuilder:validation:XValidation:rule="self.all(path, path == '' || path.startsWith('/'))",message="paths must be JSON pointers, such as /spec/replicas"
	Paths []string `json:"paths"`

	// Objects that the rule is for; all of the release if absent.
	// +optional
	Target *DriftTarget `json:"target,omitempty"`
}

// DriftTarget chooses objects of a release. What is absent matches everything.
type DriftTarget struct {
	// API group; the core group is "core".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// Kind.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// Name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// CRDsPolicy says what becomes of the definitions in a chart's crds directory.
//
// +kubebuilder:validation:Enum=Create;CreateReplace;Skip
type CRDsPolicy string

// The policies.
const (
	// CRDsCreate installs those that aren't there, and never changes one.
	CRDsCreate CRDsPolicy = "Create"
	// CRDsCreateReplace installs them and upgrades them with the chart.
	CRDsCreateReplace CRDsPolicy = "CreateReplace"
	// CRDsSkip leaves them to someone else.
	CRDsSkip CRDsPolicy = "Skip"
)
