package cli

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoClusterIsOneSentence: without a kubeconfig, or with one of a cluster that
// doesn't answer, a command says what to do.
func TestNoClusterIsOneSentence(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(t.TempDir(), "dead")
	config := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
users: [{name: a, user: {token: t}}], clusters: [{name: a, cluster: {server: "http://` + listener.Addr().String() + `"}}]}`
	if err := os.WriteFile(dead, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	manifest := "{apiVersion: llm.example.com/v1alpha1, kind: LLMModel, metadata: {name: a}, spec: {modelName: a, image: a}}"
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"status"}, []string{"no cluster to talk to", "slipway up"}},
		{[]string{"plan", "-f", "-"}, []string{"no cluster to talk to", "slipway up", "--offline"}},
		{[]string{"status", "--kubeconfig", dead}, []string{"doesn't answer", "--context"}},
		{[]string{"status", "llmdep/a", "--kubeconfig", dead}, []string{"doesn't answer", "--context"}},
		{[]string{"plan", "-f", "-", "--kubeconfig", dead}, []string{"doesn't answer", "--context"}},
		{[]string{"status", "--kubeconfig", dead, "--context", "b"}, []string{`context "b" does not exist`}},
		{[]string{"status", "-o", "xml"}, []string{"write wide, yaml or json"}},
		{[]string{"plan", "-f", "-", "-o", "wide"}, []string{"write yaml or json"}},
		{[]string{"status", "-w", "-o", "yaml"}, []string{"--watch", "--output yaml", "leave out one of them"}},
		{[]string{"status", "-w", "-o", "json"}, []string{"--watch", "--output json", "leave out one of them"}},
		{[]string{"status", "-w", "--kubeconfig", dead}, []string{"doesn't answer", "--context"}},
		{[]string{"plan"}, []string{"name a file with -f"}},
		{[]string{"plan", "-f", "/nowhere"}, []string{"/nowhere"}},
	} {
		var out, problems bytes.Buffer
		root := newRoot(Streams{In: strings.NewReader(manifest), Out: &out, Err: &problems})
		root.SetArgs(test.args)
		err := root.ExecuteContext(t.Context())
		if err == nil {
			t.Errorf("%v: no error", test.args)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(oneLine(err), want) {
				t.Errorf("%v: %q isn't in: %s", test.args, want, oneLine(err))
			}
		}
	}
}

func TestPlanOffline(t *testing.T) {
	var out bytes.Buffer
	root := newRoot(Streams{In: strings.NewReader(sample(t, "llm_v1alpha1_llmmodel.yaml") + "\n---\n" + sample(t, "llm_v1alpha1_llmdeployment.yaml")), Out: &out, Err: &out})
	root.SetArgs([]string{"plan", "-f", "-", "--offline", "--brief"})
	if err := root.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "6 to create") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
