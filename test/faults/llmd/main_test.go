package llmd

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/test/faults/story"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// api is the API server that all runs share, one at a time: a cluster has one Llmd.
var api *rest.Config

func TestMain(m *testing.M) { story.Main(m, 1, &api) }

// charts is a directory with two versions of the fixture's chart.
func charts(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, version := range []string{"1.0.0", "1.1.0"} {
		if err := os.WriteFile(filepath.Join(dir, fixture.Name+"-"+version+".tgz"), fixture.Archive(t, version), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
