package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
)

const root = "../.."

// load reads the import graph of the module and of all that it imports.
func load(t *testing.T) graph {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Imports", "./...")
	command.Dir = root
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, problems.String())
	}
	packages := graph{}
	decoder := json.NewDecoder(bytes.NewReader(output))
	for {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages[pkg.ImportPath] = pkg.Imports
	}
}

func TestRooms(t *testing.T) {
	packages := load(t)
	if len(packages[module+"/cmd/slipway"]) == 0 || len(packages) < 200 {
		t.Fatalf("only %d packages were read; the graph isn't the program's", len(packages))
	}
	for _, rule := range rules {
		for _, breach := range rule.check(packages) {
			t.Errorf("%s: %s", rule.name, breach)
		}
	}
}

func TestSource(t *testing.T) {
	found, err := source(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range found {
		t.Error(breach)
	}
}

// TestEveryRuleCatchesItsBreach gives each rule a graph that only it refuses.
func TestEveryRuleCatchesItsBreach(t *testing.T) {
	in := func(path string) string { return module + "/" + path }
	sound := graph{
		in("api/llm/v1alpha1"):              {"k8s.io/apimachinery/pkg/runtime", "strings"},
		in("internal/object"):               {"k8s.io/apimachinery/pkg/types", "time", "net/url"},
		in("internal/render/llmdeployment"): {in("internal/render/part"), in("api/llm/v1alpha1")},
		in("internal/render/part"):          {in("internal/object"), "embed"},
		in("internal/openai"):               {"encoding/json"},
		in("internal/apply"):                {in("internal/object"), "k8s.io/client-go/dynamic", "net/http"},
		in("internal/helm"):                 {"helm.sh/helm/v4/pkg/action", in("helm-charts")},
		in("helm-charts"):                   {"embed"},
		in("internal/controller/llmmodel"):  {in("internal/apply"), in("internal/controller/llmmodel/gather")},
		in("internal/controller"):           {in("internal/controller/llmmodel")},
		in("internal/simulator"):            {in("internal/openai"), "net/http", "example.com/plain"},
		in("internal/cli"):                  {in("internal/controller"), in("internal/simulator"), in("internal/helm")},
		in("cmd/slipway"):                   {in("internal/cli"), "os"},
	}
	if found := breaches(sound); len(found) != 0 {
		t.Fatalf("a sound graph is refused: %v", found)
	}
	for name, test := range map[string]struct {
		from string
		to   []string
		rule string
		more graph
	}{
		"a room of no name":              {in("internal/stuff"), nil, "every package is in a room", nil},
		"api with a client":              {in("api/llm/v1alpha1"), []string{"sigs.k8s.io/yaml"}, "api holds types and nothing else", nil},
		"api with the network":           {in("api/llm/v1alpha1"), []string{"net"}, "api holds types and nothing else", nil},
		"a pure room with an engine":     {in("internal/readiness"), []string{in("internal/apply")}, "imports go from the edges to the pure rooms", nil},
		"an engine with an edge":         {in("internal/helm"), []string{in("internal/controller")}, "imports go from the edges to the pure rooms", nil},
		"an edge with the command line":  {in("internal/controller/llmmodel"), []string{in("internal/cli")}, "imports go from the edges to the pure rooms", nil},
		"a pure room with files":         {in("internal/object"), []string{"os"}, "pure rooms have no effects", nil},
		"a pure room with a logger":      {in("internal/wave"), []string{"log/slog"}, "pure rooms have no effects", nil},
		"a pure room with a client":      {in("internal/scale"), []string{"k8s.io/client-go/kubernetes"}, "pure rooms have no effects", nil},
		"a pure room with a runtime":     {in("internal/scale"), []string{"sigs.k8s.io/controller-runtime/pkg/client"}, "pure rooms have no effects", nil},
		"apply with helm, by a detour":   {in("internal/apply"), []string{"example.com/x"}, "apply knows nothing of Helm", graph{"example.com/x": {"helm.sh/helm/v4/pkg/kube"}}},
		"apply with the helm room":       {in("internal/apply"), []string{in("internal/helm")}, "apply knows nothing of Helm", nil},
		"a second importer of Helm":      {in("internal/cli"), []string{"helm.sh/helm/v4/pkg/cli"}, "only the helm room imports the Helm SDK", nil},
		"a controller with another":      {in("internal/controller/llmdeployment"), []string{in("internal/controller/llmmodel")}, "no controller imports another", nil},
		"a controller with the list":     {in("internal/controller/llmdeployment"), []string{in("internal/controller")}, "no controller imports another", nil},
		"a simulator with Kubernetes":    {in("internal/simulator"), []string{"k8s.io/api/core/v1"}, "rooms of plain HTTP know no Kubernetes", nil},
		"latency with it, by a detour":   {in("internal/latency"), []string{"example.com/x"}, "rooms of plain HTTP know no Kubernetes", graph{"example.com/x": {"sigs.k8s.io/yaml"}}},
		"a router with its own engine":   {in("internal/router"), []string{in("internal/apply")}, "rooms of plain HTTP know no Kubernetes", nil},
		"a package called helpers":       {in("internal/render/helpers"), nil, "names say what is inside", nil},
		"a package called util, deep in": {in("internal/apply/util/x"), nil, "names say what is inside", nil},
	} {
		broken := graph{}
		for _, part := range []graph{sound, test.more} {
			for pkg, imports := range part {
				broken[pkg] = imports
			}
		}
		broken[test.from] = append(append([]string{}, broken[test.from]...), test.to...)
		found := breaches(broken)
		if len(found[test.rule]) == 0 || len(found) != 1 {
			t.Errorf("%s: got %v, want a breach of %q only", name, found, test.rule)
		}
	}
}

func TestSourceCatchesEachBreach(t *testing.T) {
	lines := func(count int) string { return strings.Repeat("\n", count) }
	for name, test := range map[string]struct{ path, content, breach string }{
		"a long function":       {"internal/x/a.go", "package x\nfunc long() {" + lines(80) + "}\n", "long has 81 lines; at most 80"},
		"a long method":         {"internal/x/a.go", "package x\ntype t int\nfunc (t) long() {" + lines(80) + "}\n", "long has 81 lines"},
		"a function at the end": {"internal/x/a.go", "package x\nfunc long() {" + lines(79) + "}\n", ""},
		"a long file":           {"internal/x/a.go", "package x\n" + lines(600), "has 601 lines; at most 600"},
		"a file at the end":     {"internal/x/a.go", "package x\n" + lines(599), ""},
		"a long test":           {"internal/x/a_test.go", "package x\n" + lines(900), ""},
		"a generated file":      {"internal/x/a.go", "// Code generated by x. DO NOT EDIT.\n\npackage x\n" + lines(900), ""},
		"test data":             {"internal/x/testdata/a.go", "no Go", ""},
		"a long main":           {"cmd/slipway/main.go", "package main\n" + lines(29), "a main has at most 29"},
		"work in init":          {"internal/x/a.go", "package x\nfunc init() {}\n", "init; wiring is one visible list"},
		"a clock in a pure room": {"internal/wave/a.go", "package wave\nimport \"time\"\nvar now = time.Now()\n",
			"time.Now in a pure room"},
		"a request in a pure room": {"internal/pick/a.go", "package pick\nimport \"net/http\"\nvar c = http.DefaultClient\n",
			"http.DefaultClient in a pure room"},
		"a code in a pure room":  {"internal/pick/a.go", "package pick\nimport \"net/http\"\nvar c = http.StatusOK\n", ""},
		"a clock in an edge":     {"internal/simulator/a.go", "package simulator\nimport \"time\"\nvar now = time.Now()\n", ""},
		"a time in a pure room":  {"internal/wave/a.go", "package wave\nimport \"time\"\nvar wait = 3 * time.Second\n", ""},
		"a nested module counts": {"localcluster/a.go", "package x\n" + lines(600), "has 601 lines"},
	} {
		found, err := source(fstest.MapFS{test.path: {Data: []byte(test.content)}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if test.breach == "" && len(found) != 0 {
			t.Errorf("%s: refused: %v", name, found)
		}
		if test.breach != "" && (len(found) != 1 || !strings.Contains(found[0], test.breach)) {
			t.Errorf("%s: got %v, want %q", name, found, test.breach)
		}
	}
}
