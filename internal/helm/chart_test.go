package helm

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	charts "github.com/slipway-dev/slipway/helm-charts"
	"github.com/slipway-dev/slipway/internal/version"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// render renders the operator's chart with --set assignments.
func render(t *testing.T, set ...string) (string, error) {
	t.Helper()
	chart, err := Load(charts.Files, charts.Operator)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := Set(values, set); err != nil {
		t.Fatal(err)
	}
	return Template(Request{Name: "llm-operator", Chart: chart, Values: values, Timeout: time.Minute}, "llm-system", "v1.36.0")
}

func mustRender(t *testing.T, set ...string) string {
	t.Helper()
	text, err := render(t, set...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// each decodes the objects of a kind in a rendered chart.
func each[T any](t *testing.T, text, kind string) []T {
	t.Helper()
	found := []T{}
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if head.Kind != kind {
			continue
		}
		var object T
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		found = append(found, object)
	}
	return found
}

// roles are the rules of every role in the chart, by the role's name.
func roles(t *testing.T, text string) map[string][]rbacv1.PolicyRule {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, role := range each[rbacv1.ClusterRole](t, text, "ClusterRole") {
		rules[role.Name] = role.Rules
	}
	for _, role := range each[rbacv1.Role](t, text, "Role") {
		rules[role.Name] = role.Rules
	}
	return rules
}

func TestChartRendersAsBefore(t *testing.T) {
	for name, set := range map[string][]string{
		"default": nil,
		"everything": {
			"image.repository=registry.example.com/op", "image.digest=sha256:" + strings.Repeat("a", 64), "image.pullPolicy=Always",
			"imagePullSecrets[0].name=login", "replicas=2", "logLevel=debug", "controllers={llmmodel,llmdeployment}",
			"serviceAccount.annotations.team=ml", "metrics.service.port=9090", "metrics.service.annotations.scrape=yes",
			"podAnnotations.a=b", "podLabels.c=d", "nodeSelector.disk=fast", "priorityClassName=high",
			"tolerations[0].key=gpu", "tolerations[0].operator=Exists", "affinity.nodeAffinity.x=y", "fullnameOverride=other",
		},
		"least": {"leaderElection.enabled=false", "metrics.service.enabled=false", "userRoles.create=false", "serviceAccount.create=false", "serviceAccount.name=mine"},
	} {
		got := handWritten(mustRender(t, set...))
		golden := filepath.Join("testdata", name+".yaml")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: run with -update if this is meant (-want +got):\n%s", name, diff)
		}
	}
}

// handWritten leaves out what make generate writes; what is in it has tests of
// its own.
func handWritten(text string) string {
	kept := []string{}
	for document := range strings.SplitSeq(strings.TrimPrefix(text, "---\n"), "\n---\n") {
		if !strings.Contains(document, "# Source: llm-operator/templates/generated-") {
			kept = append(kept, document)
		}
	}
	return strings.Join(kept, "\n---\n")
}

func TestRightsAreTheLeast(t *testing.T) {
	rules := roles(t, mustRender(t))
	if len(rules) != 4 {
		t.Errorf("roles: %v", rules)
	}
	for name, list := range rules {
		if len(list) == 0 {
			t.Errorf("%s gives nothing", name)
		}
		for _, rule := range list {
			all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs)
			if slices.ContainsFunc(all, func(word string) bool { return strings.Contains(word, "*") }) {
				t.Errorf("%s: a wildcard in %v", name, rule)
			}
			for _, resource := range rule.Resources {
				// Helm keeps releases in Secrets, and llm-d's charts make Roles and
				// ClusterRoles; without escalate and bind the operator can put no right into
				// one that it doesn't hold. What no kind needs stays out.
				if resource == "pods/exec" || resource == "pods/attach" || resource == "serviceaccounts/token" || strings.HasPrefix(resource, "nodes/") {
					t.Errorf("%s: %s in %v", name, resource, rule)
				}
			}
			for _, verb := range rule.Verbs {
				if verb == "escalate" || verb == "bind" || verb == "impersonate" {
					t.Errorf("%s: %s in %v", name, verb, rule)
				}
			}
		}
	}
}

func TestPodMeetsTheRestrictedProfile(t *testing.T) {
	deployments := each[appsv1.Deployment](t, mustRender(t), "Deployment")
	if len(deployments) != 1 {
		t.Fatalf("%d deployments", len(deployments))
	}
	pod := deployments[0].Spec.Template.Spec
	container := pod.Containers[0]
	for what, holds := range map[string]bool{
		"runs as non-root":         *pod.SecurityContext.RunAsNonRoot && *pod.SecurityContext.RunAsUser != 0,
		"seccomp":                  pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"no escalation":            !*container.SecurityContext.AllowPrivilegeEscalation,
		"read-only root":           *container.SecurityContext.ReadOnlyRootFilesystem,
		"no capabilities":          slices.Equal(container.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"no host namespaces":       !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
		"no volumes":               len(pod.Volumes) == 0,
		"memory is limited":        !container.Resources.Limits.Memory().IsZero(),
		"is probed":                container.ReadinessProbe.HTTPGet.Path == "/readyz" && container.LivenessProbe.HTTPGet.Path == "/healthz",
		"is the image of its time": container.Image == version.Repository+":v0.1.0",
	} {
		if !holds {
			t.Errorf("the operator's pod: %s doesn't hold", what)
		}
	}
	if !strings.HasSuffix(container.Image, ":"+mustLoad(t).AppVersion()) {
		t.Errorf("image %s isn't of version %s", container.Image, mustLoad(t).AppVersion())
	}
}

func mustLoad(t *testing.T) *Chart {
	t.Helper()
	chart, err := Load(charts.Files, charts.Operator)
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

func TestChartRefusesWhatCannotWork(t *testing.T) {
	for message, set := range map[string][]string{
		"set leaderElection.enabled=true or replicas=1": {"replicas=2", "leaderElection.enabled=false"},
		"name the account to use":                       {"serviceAccount.create=false"},
		"logLevel":                                      {"logLevel=loud"},
		"additional properties 'tags' not allowed":      {"image.tags=v1"},
		"replicas": {"replicas=-1"},
	} {
		if _, err := render(t, set...); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%v: got %v, want %q", set, err, message)
		}
	}
}

func TestChartPassesLint(t *testing.T) {
	if err := Lint(charts.Files, charts.Operator, nil); err != nil {
		t.Error(err)
	}
	broken := fstest.MapFS{
		"c/Chart.yaml":        {Data: []byte("apiVersion: v2\nname: c\nversion: 1.0.0\n")},
		"c/templates/bad.yml": {Data: []byte("a: {{ .Values.x")},
	}
	if err := Lint(broken, "c", nil); err == nil {
		t.Error("a broken chart passes")
	}
}

func TestSet(t *testing.T) {
	values := map[string]any{"image": map[string]any{"tag": "a", "repository": "r"}}
	if err := Set(values, []string{"image.tag=b", "list[0].name=x", "n=3"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"image": map[string]any{"tag": "b", "repository": "r"},
		"list":  []any{map[string]any{"name": "x"}},
		"n":     int64(3),
	}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := Set(values, []string{"nothing"}); err == nil || !strings.Contains(err.Error(), "write it as name=value") {
		t.Errorf("no assignment: %v", err)
	}
}

func TestTimeoutsAreBounded(t *testing.T) {
	client := New(nil, "x", nil, time.Now)
	for _, timeout := range []time.Duration{0, -time.Second, MaxTimeout + 1} {
		if _, err := client.Apply(t.Context(), Request{Timeout: timeout}); err == nil || !strings.Contains(err.Error(), "out of bounds") {
			t.Errorf("%s: %v", timeout, err)
		}
		if err := client.Uninstall("x", timeout); err == nil || !strings.Contains(err.Error(), "out of bounds") {
			t.Errorf("%s: %v", timeout, err)
		}
	}
}
