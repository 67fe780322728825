package llmd_test

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// answers are what the integration that Llmd follows lacked, and what it wanted to
// become, by words of its own summary: a field of the spec that answers it, and
// what the document says of it.
var answers = []struct{ asked, field, says string }{
	// limitations
	{"templated at build time", "spec.infra.chart", "at run time, as Helm releases"},
	{"custom Helm values", "spec.infra.values", "inline and from ConfigMaps and Secrets, with Helm's precedence"},
	{"Fixed namespace", "spec.namespace", "a change moves the releases"},
	{"operator rebuild", "spec.infra.version", "`version`, `chart` and `repository` of each part"},
	// enhancements
	{"Dynamic Helm Integration", "spec.infra.crds", "released from its Helm charts by the operator itself"},
	{"Full Values Support", "spec.infra.valuesFrom", "what a values.yaml holds"},
	{"Namespace Configuration", "spec.infra.namespace", "another name or namespace moves the release"},
	{"Chart Upgrade Logic", "spec.infra.remediation", "goes back to the last good revision"},
	{"Chart Repository Config", "spec.infra.repository.url", "`https://`, `http://` (an index.yaml), `oci://`, or a directory"},
}

// TestEveryLimitationIsAnswered: the document says where, and the field is there.
func TestEveryLimitationIsAnswered(t *testing.T) {
	document := read(t, "../../../docs/llmd.md")
	definition := map[string]any{}
	if err := yaml.Unmarshal([]byte(read(t, "../../../config/crd/components.platform.opendatahub.io_llmds.yaml")), &definition); err != nil {
		t.Fatal(err)
	}
	for _, each := range answers {
		if !strings.Contains(document, each.says) {
			t.Errorf("%s: docs/llmd.md doesn't say %q", each.asked, each.says)
		}
		if !declares(definition, strings.Split(each.field, ".")) {
			t.Errorf("%s: there is no field %s", each.asked, each.field)
		}
	}
	for _, link := range regexp.MustCompile(`\]\(#([a-z-]+)\)`).FindAllStringSubmatch(document, -1) {
		if heading := strings.ReplaceAll(link[1], "-", " "); !strings.Contains(strings.ToLower(document), "\n## "+heading+"\n") {
			t.Errorf("docs/llmd.md links to #%s, which it doesn't have", link[1])
		}
	}
}

// TestNoLimitationIsForgotten reads the summary itself, where it is beside the
// module: each line of its two lists has one answer.
func TestNoLimitationIsForgotten(t *testing.T) {
	text, err := os.ReadFile("../../../../shared/spec/opendatahub-llmd.md")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the summary isn't beside the module")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, lists, found := strings.Cut(string(text), "### Current Limitations")
	lists, _, ends := strings.Cut(lists, "\n## ")
	if !found || !ends {
		t.Fatal("the summary has no lists any more")
	}
	lines := regexp.MustCompile(`(?m)^\d+\. .+$`).FindAllString(lists, -1)
	if len(lines) != len(answers) {
		t.Errorf("it has %d lines, and there are %d answers", len(lines), len(answers))
	}
	for _, line := range lines {
		answered := 0
		for _, each := range answers {
			if regexp.MustCompile(each.asked).MatchString(line) {
				answered++
			}
		}
		if answered != 1 {
			t.Errorf("%q has %d answers", line, answered)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// declares tells whether a definition has a field in its first version.
func declares(definition map[string]any, path []string) bool {
	spec, _ := definition["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	version, _ := versions[0].(map[string]any)
	schema, _ := version["schema"].(map[string]any)
	at, _ := schema["openAPIV3Schema"].(map[string]any)
	for _, name := range path {
		properties, _ := at["properties"].(map[string]any)
		if at, _ = properties[name].(map[string]any); at == nil {
			return false
		}
	}
	return true
}
