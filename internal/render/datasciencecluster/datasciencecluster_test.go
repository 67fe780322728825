package datasciencecluster_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	"github.com/slipway-dev/slipway/internal/render/datasciencecluster"
	"github.com/slipway-dev/slipway/test/golden"
)

func TestGoldens(t *testing.T) {
	golden.Each(t, func(t *testing.T, path string) []byte {
		objects, err := datasciencecluster.Objects(load(t, path))
		return golden.Manifests(t, objects, err)
	})
}

func load(t *testing.T, path string) *datascienceclusterv2.DataScienceCluster {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cluster := &datascienceclusterv2.DataScienceCluster{}
	if err := yaml.Unmarshal(text, cluster); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// TestUnknownComponentsSurvive: a program that reads the resource into its type
// and writes it again drops nothing.
func TestUnknownComponentsSurvive(t *testing.T) {
	cluster := load(t, "testdata/full.in.yaml")
	written, err := json.Marshal(cluster.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"dashboard":{"managementState":"Managed"}`, `"llmd":{`, `"nothing":null`} {
		if !strings.Contains(string(written), part) {
			t.Errorf("%s is gone from %s", part, written)
		}
	}
}
