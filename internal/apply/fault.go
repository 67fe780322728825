package apply

import (
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
)

// replaceableKinds lists the kinds that are deleted and made again when a field
// that can't be changed has to, and how they are deleted. They hold no data and
// no address, and nothing that serves depends on their being there for a
// moment, or they are to be replaced by the meaning of the change: a Pod that we
// keep ourselves has no other way. A Job goes in the foreground: its old pods end
// before new ones start.
// Deployments, StatefulSets, Services and claims aren't here on purpose: to
// replace one is an outage, which only the user may order.
var replaceableKinds = map[schema.GroupKind]metav1.DeletionPropagation{
	{Kind: "Pod"}:                 metav1.DeletePropagationBackground,
	{Group: "batch", Kind: "Job"}: metav1.DeletePropagationForeground,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        metav1.DeletePropagationBackground,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: metav1.DeletePropagationBackground,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                  metav1.DeletePropagationBackground,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:              metav1.DeletePropagationBackground,
}

// immutablePhrases is how the API server's validation says that a field can't
// be changed (k8s.io/kubernetes, pkg/apis/*/validation).
var immutablePhrases = []string{
	"field is immutable",
	"cannot change roleRef",
	"updates to parameters are forbidden",
	"pod updates may not change fields",
	"updates to provisioner are forbidden",
	"may not be changed in an update",
}

// immutableField is the field that an error says can't be changed, or "".
func immutableField(err error) string {
	for _, cause := range causesOf(err) {
		for _, phrase := range immutablePhrases {
			if strings.Contains(cause.Message, phrase) {
				return cause.Field
			}
		}
	}
	return ""
}

func causesOf(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// explain turns an error of the API server into what happens next and the
// sentence that the user reads. Conflicts and what is transient stay as they
// are: they are retried.
func explain(ref object.Ref, err error) error {
	name := ref.Display()
	switch {
	case err == nil, apierrors.IsConflict(err):
		return err
	case meta.IsNoMatchError(err):
		return waitLater(condition.ReasonAPINotServed,
			"%s can't be made: this cluster serves no %s of %s; install what provides it", name, ref.Kind, groupVersionOf(ref))
	case apierrors.IsNotFound(err):
		return explainNotFound(ref, err)
	case apierrors.IsForbidden(err):
		return explainForbidden(ref, err)
	case immutableField(err) != "":
		return condition.Stop(condition.ReasonImmutableField,
			"%s can't be changed: %s can't be changed once it is set; change it back, or delete %s and it is made anew",
			name, immutableField(err), name)
	case isRefusal(err):
		return condition.Stop(condition.ReasonInvalidObject, "%s was refused: %s", name, detail(err))
	default:
		return condition.Retry(condition.ReasonApplyFailed, "%s couldn't be applied: %w", name, err)
	}
}

// isRefusal reports whether the server will never take this object as it is.
// An object that doesn't fit its schema is an internal error to the server.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsMethodNotSupported(err) || strings.Contains(err.Error(), "failed to create typed patch object")
}

func explainNotFound(ref object.Ref, err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces" {
		return waitLater(condition.ReasonDependencyNotFound,
			"%s can't be made: namespace %s doesn't exist; create it", ref.Display(), ref.Namespace)
	}
	return &unwatched{after: lookSoon, error: condition.Wait(condition.ReasonAPINotServed,
		"%s can't be made: this cluster doesn't serve %s of %s yet", ref.Display(), ref.Kind, groupVersionOf(ref))}
}

func explainForbidden(ref object.Ref, err error) error {
	switch text := err.Error(); {
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return waitLater(condition.ReasonTerminating,
			"%s can't be made: namespace %s is being deleted", ref.Display(), ref.Namespace)
	case strings.Contains(text, "exceeded quota"):
		return waitLater(condition.ReasonQuotaExceeded,
			"%s can't be made: %s; raise the quota or free some of it", ref.Display(), detail(err))
	case strings.Contains(text, "User \""):
		return waitLater(condition.ReasonForbidden,
			"%s can't be made: Slipway isn't allowed to (%s); grant it that", ref.Display(), detail(err))
	default:
		return &unwatched{after: lookLater, error: condition.Stop(condition.ReasonForbidden,
			"%s was refused: %s", ref.Display(), detail(err))}
	}
}

// detail is the fault in an API server's message: its causes in a stable order
// where it has some, and else what follows the name of the object.
func detail(err error) string {
	if causes := causesOf(err); len(causes) > 0 {
		lines := make([]string, 0, len(causes))
		for _, cause := range causes {
			lines = append(lines, strings.TrimPrefix(cause.Field+": "+cause.Message, ": "))
		}
		slices.Sort(lines)
		return strings.Join(slices.Compact(lines), "; ")
	}
	text := err.Error()
	if _, rest, found := strings.Cut(text, " is forbidden: "); found {
		text = rest
	}
	return strings.Join(strings.Fields(text), " ")
}

func groupVersionOf(ref object.Ref) string { return ref.GroupVersionKind().GroupVersion().String() }

func groupOf(apiVersion string) string {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return version.Group
}

// unwatched is an error after which no watch wakes us: the pass tells when to
// look again.
type unwatched struct {
	error
	after time.Duration
}

func (u *unwatched) Unwrap() error { return u.error }

func waitLater(reason, format string, args ...any) error {
	return &unwatched{after: lookLater, error: condition.Wait(reason, format, args...)}
}

func lookAfter(err error) time.Duration {
	var u *unwatched
	if errors.As(err, &u) {
		return u.after
	}
	return 0
}
