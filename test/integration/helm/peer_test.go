package helm

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/definitions"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// peer is the helm command against the test's API server.
type peer struct {
	t       *testing.T
	command *fixture.Command
	dir     string
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	return &peer{t: t, command: fixture.NewCommand(t, server), dir: t.TempDir()}
}

// helm runs the command and gives what it printed.
func (p *peer) helm(args ...string) string {
	p.t.Helper()
	return p.command.Run(args...)
}

// chart writes the fixture in a version, and values.
func (p *peer) chart(version string, values map[string]any) []string {
	p.t.Helper()
	archive, file := filepath.Join(p.dir, "stack-"+version+".tgz"), filepath.Join(p.dir, "values.yaml")
	text, err := yaml.Marshal(values)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(archive, fixture.Archive(p.t, version), 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return []string{"app", archive, "--values", file}
}

// kinds are those of the fixture's objects.
var kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "ServiceAccount"},
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}, {Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"},
	{Group: "inference.networking.k8s.io", Version: "v1", Kind: "InferencePool"},
	{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}, {Group: "stack.example.com", Version: "v1", Kind: "Widget"},
}

// picture is what a namespace holds of the fixture's kinds, but what each place
// has of its own; the fields' managers included.
func (p *place) picture() map[string]any {
	p.Helper()
	world := map[string]any{}
	for _, kind := range kinds {
		for _, each := range bed.List(p.Context(), p.T, p.client, kind, p.namespace) {
			if each.GetName() == "kube-root-ca.crt" || each.GetName() == "default" {
				continue
			}
			world[each.GetKind()+"/"+each.GetName()] = plain(p, each)
		}
	}
	return world
}

// plain is an object without what differs from place to place.
func plain(p *place, obj unstructured.Unstructured) any {
	p.Helper()
	delete(obj.Object, "status")
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	for _, field := range []string{"clusterIP", "clusterIPs"} {
		unstructured.RemoveNestedField(obj.Object, "spec", field)
	}
	unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", "deployment.kubernetes.io/revision")
	managers, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields")
	kept := []any{}
	for _, each := range managers {
		entry := each.(map[string]any)
		delete(entry, "time")
		if entry["subresource"] == nil && entry["manager"] != "kube-controller-manager" {
			kept = append(kept, entry)
		}
	}
	_ = unstructured.SetNestedSlice(obj.Object, kept, "metadata", "managedFields")
	raw, err := json.Marshal(obj.Object)
	p.must(err)
	var content any
	p.must(json.Unmarshal([]byte(strings.ReplaceAll(string(raw), p.namespace, "NAMESPACE")), &content))
	return content
}

// optional serves the kinds of the Gateway API, the inference extension and
// LeaderWorkerSet, as far as the fixture needs them.
var optional = sync.OnceValue(func() error {
	all, err := definitions.All(context.Background())
	if err != nil {
		return err
	}
	preserve := true
	lws := &apiextensionsv1.CustomResourceDefinition{}
	lws.Name = "leaderworkersets.leaderworkerset.x-k8s.io"
	lws.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "leaderworkerset.x-k8s.io", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "LeaderWorkerSet", ListKind: "LeaderWorkerSetList", Plural: "leaderworkersets", Singular: "leaderworkerset"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
		}},
	}
	crds := []*apiextensionsv1.CustomResourceDefinition{lws, all[definitions.Gateways], all[definitions.HTTPRoutes], all[definitions.InferencePools]}
	_, err = envtest.InstallCRDs(server, envtest.CRDInstallOptions{CRDs: crds})
	return err
})

// TestTheSameAsHelm: what the helm command makes of a chart and values and what
// the Runner makes of them is the same, to the last field and its manager, at the
// installation and after an upgrade.
func TestTheSameAsHelm(t *testing.T) {
	t.Parallel()
	if err := optional(); err != nil {
		t.Fatal(err)
	}
	ours, theirs, helm := newPlace(t), newPlace(t), newPeer(t)
	before := map[string]any{"replicas": 2, "settings": map[string]any{"greeting": "good day", "limit": 1000000}, "with": map[string]any{"hook": true, "more": true, "gateway": true, "pool": true, "lws": true, "widget": true, "keep": true}}
	after := map[string]any{"replicas": 1, "port": 9000, "image": "registry.example.com/server:v2", "with": map[string]any{"hook": true, "gateway": true, "pool": true, "lws": true}}
	want := ours.want("1.0.0", before)
	want.Labels = nil
	ours.untilMade(want)
	helm.helm(append([]string{"install", "--namespace", theirs.namespace}, helm.chart("1.0.0", before)...)...)
	if diff := cmp.Diff(theirs.picture(), ours.picture()); diff != "" {
		t.Errorf("the installation differs (-helm +ours):\n%s", diff)
	}
	next := ours.want("1.1.0", after)
	next.Labels = nil
	ours.untilMade(next)
	helm.helm(append([]string{"upgrade", "--namespace", theirs.namespace}, helm.chart("1.1.0", after)...)...)
	if diff := cmp.Diff(theirs.picture(), ours.picture()); diff != "" {
		t.Errorf("the upgrade differs (-helm +ours):\n%s", diff)
	}
	if len(ours.picture()) < 14 {
		t.Errorf("only %d objects were compared", len(ours.picture()))
	}
}

// TestHelmUnderstandsOurs: its commands list our releases, show their history
// and roll them back, and we say that someone did.
func TestHelmUnderstandsOurs(t *testing.T) {
	t.Parallel()
	p, helm := newPlace(t), newPeer(t)
	p.expect(p.want("1.0.0", nil), release.Nothing, condition.ReasonReady, "Install", "Settle")
	want := p.want("1.1.0", with("more"))
	p.expect(want, release.Nothing, condition.ReasonReady, "Upgrade", "Settle")
	if list := helm.helm("list", "--namespace", p.namespace); !strings.Contains(list, "deployed") || !strings.Contains(list, "stack-1.1.0") {
		t.Errorf("helm list:\n%s", list)
	}
	if history := helm.helm("history", "app", "--namespace", p.namespace); !strings.Contains(history, "superseded") || !strings.Contains(history, "Upgrade complete") {
		t.Errorf("helm history:\n%s", history)
	}
	helm.helm("rollback", "app", "1", "--namespace", p.namespace)
	report := p.expect(want, release.Stop, release.ReasonRolledBackByHand)
	p.says(report, "someone rolled back to revision 1 with helm", "until the spec, version or values change")
	if p.configMap("app-stack-more") != nil {
		t.Error("the rollback was undone")
	}
	p.clock.by = patience * 1000
	p.expect(want, release.Stop, release.ReasonRolledBackByHand)
	p.clock.by = 0
	p.expect(p.want("1.1.0", with("more", "keep")), release.Nothing, condition.ReasonReady, "Upgrade", "Settle")
	helm.helm(append([]string{"upgrade", "--namespace", p.namespace}, helm.chart("1.2.0", nil)...)...)
	p.expect(want, release.Nothing, condition.ReasonReady, "Upgrade", "Settle")
	helm.helm("uninstall", "app", "--namespace", p.namespace, "--keep-history")
	p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Settle")
	if history := helm.helm("history", "app", "--namespace", p.namespace); !strings.Contains(history, "Install complete") {
		t.Errorf("helm history:\n%s", history)
	}
}

// TestAReleaseMadeByHandIsAdopted, and its history stays.
func TestAReleaseMadeByHandIsAdopted(t *testing.T) {
	t.Parallel()
	p, helm := newPlace(t), newPeer(t)
	want := p.want("1.1.0", with("more"))
	helm.helm(append([]string{"install", "--namespace", p.namespace}, helm.chart("1.0.0", nil)...)...)
	removed := want
	removed.Removed = true
	p.expect(removed, release.Nothing, release.ReasonNotOurs)
	report := p.expect(want, release.Nothing, condition.ReasonReady, "Upgrade", "Settle")
	if report.Newest.Number != 2 || len(p.records()) != 2 {
		t.Errorf("revision %d of %d records", report.Newest.Number, len(p.records()))
	}
	p.expect(removed, release.Nothing, release.ReasonUninstalled, "Uninstall", "Forget")
}
