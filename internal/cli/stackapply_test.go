package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
)

// TestStackSentences: what can't be meant is told in one line, before any cluster is
// asked.
func TestStackSentences(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "stack.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: ConfigMap\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere := filepath.Join(dir, "kubeconfig")
	for want, args := range map[string][]string{
		"say which stack":                         {"apply"},
		"say which stack: a file":                 {"apply", "-f", file, "--preset", "xks"},
		`there is no preset "xls"; write xks`:     {"apply", "--preset", "xls"},
		`has no flavor "eks"; write aks or corew`: {"apply", "--preset", "xks", "--flavor", "eks"},
		"--flavor is for --preset":                {"apply", "-f", file, "--flavor", "aks"},
		"stack.yaml: it holds a ConfigMap of v1":  {"apply", "-f", file},
		"-: there is nothing in it":               {"apply", "-f", "-"},
		"no such file":                            {"apply", "-f", file + "x"},
		"--output is for --dry-run":               {"apply", "--preset", "xks", "-o", "yaml"},
		`--output "xml"`:                          {"apply", "--preset", "xks", "--dry-run", "-o", "xml"},
		"none of the others can be":               {"apply", "--preset", "xks", "--local", "--operator", "--kubeconfig", nowhere},
		"no cluster to talk to":                   {"apply", "--preset", "xks", "--kubeconfig", nowhere},
		"accepts 2 arg(s)":                        {"rollback", "xks"},
		"say which stack: its name":               {"delete"},
		"or its file with -f":                     {"delete", "xks", "-f", file},
		"stack.yaml: it holds a ConfigMap":        {"delete", "-f", file},
	} {
		out, _, err := call(t, append([]string{"stack"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
}

func TestStackPreset(t *testing.T) {
	if out, _, err := call(t, "stack", "preset"); err != nil || out != "xks\nxks --flavor aks\nxks --flavor coreweave\n" {
		t.Errorf("%q, %v", out, err)
	}
	out, _, err := call(t, "stack", "preset", "xks", "--flavor", "coreweave")
	if err != nil || !strings.Contains(out, "node.coreweave.cloud/class") || strings.Contains(out, "status:\n") && strings.Contains(out, "conditions:") {
		t.Errorf("%q, %v", out, err)
	}
	if out, _, err := call(t, "stack", "preset", "xks", "--sample"); err != nil || !strings.Contains(out, "kind: LLMInferenceService") {
		t.Errorf("%q, %v", out, err)
	}
}

// TestReportLeft: what a deletion leaves is named, with the way out.
func TestReportLeft(t *testing.T) {
	var lines []string
	report := func(line string) { lines = append(lines, line) }
	reportLeft(report, nil)
	reportLeft(report, []platformv1alpha1.StackRelease{{Component: "lws", Name: "lws-operator", Namespace: "lws"}})
	want := "release lws-operator in namespace lws couldn't be uninstalled in 30m0s and is left; remove it with helm uninstall"
	if len(lines) != 1 || lines[0] != want {
		t.Errorf("%q", lines)
	}
}
