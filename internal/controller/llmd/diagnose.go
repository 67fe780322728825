package llmd

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// diagnose finds out why the pods of a release don't get ready, only when they
// don't: a release that is ready costs nothing.
func (r *Reconciler) diagnose(ctx context.Context, each *stand) (err error) {
	if each.unready() {
		words := func(*unstructured.Unstructured) diagnosis.Levers { return llmd.Levers(each.component) }
		each.finding, err = r.Evidence.Fault(ctx, each.report.Live, words)
	}
	return err
}

// unready tells whether all that is missing of a release is that its objects get
// ready.
func (s *stand) unready() bool {
	newest, decision := s.report.Newest, s.report.Decision
	return s.err == nil && s.wanted != nil && newest != nil && newest.Status == release.Deployed &&
		s.report.Readiness.Status != readiness.Ready && decision.Kind == release.Wait && decision.Reason != release.ReasonDrifted
}
