package plan

import (
	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
)

var platformStackKind = platformv1alpha1.GroupVersion.WithKind(platformv1alpha1.KindPlatformStack)

// platformStackRemark says what a plan of a PlatformStack leaves out: it fetches
// nothing.
const platformStackRemark = "it releases components, whose objects a plan doesn't show; slipway stack apply -f FILE --dry-run shows them"
