package stack

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/olm"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// part is one release of a component: what it is to become, and what it defines.
type part struct {
	config      any
	definitions []*unstructured.Unstructured
}

// parts are all that a component's upgrade consists of, so that it is approved as a
// whole.
func (p *pass) parts(s *stand) ([]part, error) {
	definitions, err := s.made.definitions()
	if err != nil {
		return nil, err
	}
	all := []part{{config: s.report.Config, definitions: definitions}}
	for _, hooks := range [][]platformstack.Hook{s.component.Before, s.component.After} {
		for _, each := range hooks {
			if each.Apply == nil {
				continue
			}
			one, err := partOf(each)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// partOf is the release of what a hook applies.
func partOf(h platformstack.Hook) (part, error) {
	objects, err := hookObjects(h)
	return part{config: h.Apply, definitions: definitionsOf(objects)}, err
}

// approved gives nil unless an upgrade would take from definitions something whose
// loss nobody has approved. What would lose stored objects is refused.
//
// Each part that loses something has a digest of its own, and an approval names all
// of them: what is left to do after one part was done is still approved.
func (p *pass) approved(ctx context.Context, s *stand, parts []part) error {
	var lost olm.Difference
	var digests []string
	isApproved := true
	for _, each := range parts {
		live, err := p.live(ctx, each.definitions)
		if err != nil {
			return err
		}
		one := olm.Compare(live, each.definitions)
		lost.Errors = append(lost.Errors, one.Errors...)
		if len(one.Warnings) == 0 {
			continue
		}
		lost.Warnings = append(lost.Warnings, one.Warnings...)
		digest := object.Hash([]any{each.config, asAny(one.Warnings)}).String()
		digests = append(digests, digest)
		isApproved = isApproved && platformstack.Approved(p.stack, s.component.Name, digest)
	}
	if len(lost.Errors) > 0 {
		return condition.Stop(ReasonLosesData, "%s; migrate the objects first, or choose another version", listed(lost.Errors))
	}
	if isApproved || s.component.Spec.Approval == platformv1alpha1.ApprovalAutomatic {
		return nil
	}
	digest := strings.Join(digests, platformstack.ApprovalsAnd)
	s.status.Approval = &platformv1alpha1.ApprovalStatus{Digest: digest}
	for _, each := range lost.Warnings[:min(len(lost.Warnings), maxChanges)] {
		s.status.Approval.Changes = append(s.status.Approval.Changes, condition.BoundTo(each, maxMessage))
	}
	return condition.Wait(ReasonAwaitingApproval, "the upgrade loses something: %s; approve it with slipway stack apply --approve %s, or annotate the stack with %s=%s=%s",
		listed(lost.Warnings), s.component.Name, platformv1alpha1.AnnotationApprove, s.component.Name, digest)
}

// maxChanges is how many lines of what is lost the status tells.
const maxChanges = 32

func asAny(lines []string) []any {
	list := make([]any, len(lines))
	for i, line := range lines {
		list[i] = line
	}
	return list
}
