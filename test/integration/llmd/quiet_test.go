package llmd

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
)

// quiet waits for as long as a look at a resource may take. Nothing tells that a
// look found nothing to do, so only time can.
func quiet(t *testing.T) {
	t.Helper()
	watcher, err := kube.Watch(t.Context(), &componentsv1alpha1.LlmdList{}, client.MatchingFields{"metadata.name": componentsv1alpha1.LlmdName})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	for {
		select {
		case <-watcher.ResultChan():
		case <-timer.C:
			return
		}
	}
}
