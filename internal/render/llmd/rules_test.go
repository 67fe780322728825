package llmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// TestRules runs testdata/rules.test.yaml, Prometheus' own unit tests of the
// alerts, in namespace inference.
func TestRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool isn't installed; on Debian: apt-get install -y prometheus")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(llmd.Rules("inference")), 0o600); err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("testdata/rules.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "test.yaml")
	if err := os.WriteFile(file, tests, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{{"check", "rules", filepath.Join(dir, "rules.yaml")}, {"test", "rules", file}} {
		if output, err := exec.CommandContext(t.Context(), promtool, arguments...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments, err, output)
		}
	}
}
