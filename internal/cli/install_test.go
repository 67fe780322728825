package cli

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	charts "github.com/slipway-dev/slipway/helm-charts"
	"github.com/slipway-dev/slipway/test/controlplane"
)

// TestInstallAndUninstall runs the two commands as a user does and holds what
// they say, word for word.
func TestInstallAndUninstall(t *testing.T) {
	plane := controlplane.StartPlane(t, controlplane.WithNodes(1))
	l := &live{config: plane.Config(), kubeconfig: plane.Kubeconfig()}

	objects, said, err := l.run(t, "", "install", "--dry-run")
	if err != nil || said != "" || !strings.HasPrefix(objects, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: llm-system\n---\n") {
		t.Errorf("a dry run: %v, %q, %.200s", err, said, objects)
	}

	out, said, err := l.run(t, "", "install")
	if err != nil || out != "" {
		t.Fatalf("%v, %q", err, out)
	}
	kinds := definitions(t)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	// Between the first lines and the last stands what the pods were waiting for.
	steps := append(lines[:min(4, len(lines))], lines[len(lines)-1])
	want := []string{
		"namespace llm-system created",
		fmt.Sprintf("definitions: %d created", len(kinds)),
		"release llm-operator: applying",
		"release llm-operator installed (revision 1)",
		"deployment llm-operator ready (1 of 1)",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("install says (-want +got):\n%s", diff)
	}

	if _, _, err := l.run(t, "", "uninstall", "-n", "elsewhere"); err != nil {
		t.Errorf("nothing to uninstall in another namespace: %v", err)
	}
	_, said, err = l.run(t, "", "uninstall")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"release llm-operator: removing",
		"release llm-operator removed",
		"the definitions stay, and with them every resource; remove them with: kubectl delete crd " + strings.Join(kinds, " "),
		"namespace llm-system stays; remove it with: kubectl delete namespace llm-system",
	}, strings.Split(strings.TrimSpace(said), "\n")); diff != "" {
		t.Errorf("uninstall says (-want +got):\n%s", diff)
	}
}

// definitions are the names of those that the binary carries.
func definitions(t *testing.T) []string {
	t.Helper()
	files, err := fs.Glob(charts.Files, charts.CRDs+"/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	var names []string
	for _, file := range files {
		group, plural, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".yaml"), "_")
		names = append(names, plural+"."+group)
	}
	return names
}

func TestInstallSaysWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		args    []string
		message string
	}{
		{[]string{"install", "--kubeconfig", "/nowhere"}, "no cluster to talk to"},
		{[]string{"install", "--timeout", "soon"}, "invalid argument"},
		{[]string{"install", "now"}, "unknown command"},
		{[]string{"uninstall", "--kubeconfig", "/nowhere"}, "no cluster to talk to"},
	} {
		root := newRoot(Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
		root.SetArgs(test.args)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%v: %v", test.args, err)
		}
	}
}

func TestStepsReplaceOneAnotherOnATerminalOnly(t *testing.T) {
	tell := func(shown *steps) {
		shown.show("waiting for a long while", false)
		shown.show("waiting for a long while", false)
		shown.show("done", true)
		shown.show("next", false)
		shown.clear()
	}
	var plain, live bytes.Buffer
	tell(newSteps(&plain))
	if want := "waiting for a long while\ndone\nnext\n"; plain.String() != want {
		t.Errorf("elsewhere: %q, want %q", plain.String(), want)
	}
	tell(&steps{out: &live, live: true, width: 10})
	const back = "\r\033[K"
	if want := "waiting f" + back + "waiting f" + back + "done\nnext" + back; live.String() != want {
		t.Errorf("on a terminal: %q, want %q", live.String(), want)
	}
}
