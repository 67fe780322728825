package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/cli/plan"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/test/controlplane"
)

// awaitDeadline bounds each wait for the operator.
const awaitDeadline = 60 * time.Second

// live is a cluster with the operator in it, for all tests of this file.
type live struct {
	config     *rest.Config
	client     client.WithWatch
	kubeconfig string
}

// TestAgainstACluster runs commands against a real API server with the operator
// and simulated nodes.
func TestAgainstACluster(t *testing.T) {
	plane := controlplane.StartPlane(t, controlplane.WithNodes(1))
	l := &live{config: plane.Config(), kubeconfig: plane.Kubeconfig()}
	kube, err := client.NewWithWatch(l.config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.client = kube
	t.Run("before the definitions are there", l.beforeInstallation)
	if _, err := envtest.InstallCRDs(l.config, envtest.CRDInstallOptions{Paths: []string{"../../config/crd"}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- manager.Run(ctx, l.config, manager.Options{
			MetricsAddress: "0", HealthAddress: "0", Concurrency: 4, ShutdownGrace: 10 * time.Second,
			Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("status", l.status)
	t.Run("watch", l.watch)
	t.Run("plan", l.plan)
	t.Run("plan of what is written meanwhile", l.planMeanwhile)
}

// run is a command's outcome: what it wrote, and its error.
func (l *live) run(t *testing.T, input string, args ...string) (out, problems string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRoot(Streams{In: strings.NewReader(input), Out: &stdout, Err: &stderr})
	root.SetArgs(append(args, "--kubeconfig", l.kubeconfig))
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func (l *live) beforeInstallation(t *testing.T) {
	_, _, err := l.run(t, "", "status")
	if err == nil || !strings.Contains(err.Error(), "slipway install") {
		t.Errorf("got %v, want a hint at slipway install", err)
	}
	_, _, err = l.run(t, "", "status", "llmdeployment/chat")
	if err == nil || !strings.Contains(err.Error(), "slipway") {
		t.Errorf("got %v, want a hint", err)
	}
	_, _, err = l.run(t, sample(t, "llm_v1alpha1_llmmodel.yaml"), "plan", "-f", "-")
	if err == nil || !strings.Contains(err.Error(), "slipway install") || !strings.Contains(err.Error(), "--offline") {
		t.Errorf("got %v, want hints at slipway install and --offline", err)
	}
}

// plan goes through the life of a deployment: planned, applied, planned again,
// changed.
func (l *live) plan(t *testing.T) {
	model, deployment := sample(t, "llm_v1alpha1_llmmodel.yaml"), sample(t, "llm_v1alpha1_llmdeployment.yaml")
	namespace := l.world(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: unrelated}}")
	all := model + "\n---\n" + deployment
	simulator := regexp.MustCompile(`(?m)^  namespace: .*\n`).ReplaceAllString(sample(t, "sim_v1alpha1_simulatordeployment_minimal.yaml"), "")
	steps := []struct {
		name, manifests string
		want            []string
		refused         bool
	}{
		{"all is new", all, []string{"+ LLMModel", "+ Deployment", "+ PodDisruptionBudget", "6 to create, 0 to change, 0 to delete, 0 unchanged"}, false},
		{"without a model", deployment, []string{"would wait: LLMModel gpt-small is neither", "1 to create"}, false},
		{"refused", model + "\n---\n" + strings.Replace(deployment, "port: 8080", "port: 99999", 1), []string{"! LLMDeployment", "spec.port: ", "port must be a whole number from 1 to 65535", "1 refused"}, true},
		{"a misspelt field", model + "\n  imgae: x", []string{"! LLMModel", "failed: spec.imgae: unknown field; did you mean spec.image?"}, true},
		{"of Kubernetes' own", "{apiVersion: v1, kind: ConfigMap, metadata: {name: unrelated-too}, dta: {a: b}}", []string{"! ConfigMap", "failed: dta: unknown field; did you mean data?"}, true},
		{"of what is there", "{apiVersion: v1, kind: ConfigMap, metadata: {name: unrelated}, dta: {a: b}}", []string{"! ConfigMap", "failed: dta: unknown field; did you mean data?"}, true},
		{"a simulator", simulator, []string{"+ SimulatorDeployment", "made for SimulatorDeployment " + namespace, "+ Service"}, false},
		{"an unknown field", model + "\n  temperature: 1", []string{"failed: spec.temperature: unknown field; correct its name or remove it"}, true},
	}
	for _, step := range steps {
		l.planned(t, namespace, step.name, step.manifests, step.want, step.refused)
	}
	left := &unstructured.UnstructuredList{}
	left.SetGroupVersionKind(schema.GroupVersionKind{Group: "llm.example.com", Version: "v1alpha1", Kind: "LLMModelList"})
	if err := l.client.List(t.Context(), left, client.InNamespace(namespace)); err != nil || len(left.Items) != 0 {
		t.Fatalf("a plan made %d models, %v", len(left.Items), err)
	}
	l.create(t, namespace, all)
	l.await(t, namespace, "Serving")
	l.planned(t, namespace, "nothing new", all, []string{"0 to create, 0 to change, 0 to delete, 6 unchanged"}, false)
	l.planned(t, namespace, "more replicas", strings.Replace(deployment, "replicas: 2", "replicas: 3", 1),
		[]string{"~ LLMDeployment", "~ Deployment", "-  replicas: 2", "+  replicas: 3", "0 to create, 2 to change, 0 to delete"}, false)
	l.planned(t, namespace, "one replica", strings.Replace(deployment, "replicas: 2", "replicas: 1", 1),
		[]string{"- PodDisruptionBudget", "0 to create, 2 to change, 1 to delete"}, false)
	l.planned(t, namespace, "a field taken out", strings.Replace(model, `    memory: "4Gi"`, "", 1),
		[]string{"-    memory: 4Gi", "made for LLMDeployment", "2 to change"}, false)
	l.planned(t, namespace, "a model of others", strings.Replace(model, "4Gi", "8Gi", 1),
		[]string{"~ LLMModel", "made for LLMDeployment " + namespace + "/chat-service", "~ Deployment", "memory: 8Gi", "2 to change"}, false)
}

// planMeanwhile plans a change of a model that someone writes between the two
// requests that a plan takes.
func (l *live) planMeanwhile(t *testing.T) {
	namespace := l.world(t, sample(t, "llm_v1alpha1_llmmodel.yaml"))
	writes := 0
	meddled := interceptor.NewClient(l.client, interceptor.Funcs{
		Update: func(ctx context.Context, server client.WithWatch, planned client.Object, opts ...client.UpdateOption) error {
			if writes++; writes == 1 {
				someone := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"someone": "else"}}}`))
				if err := server.Patch(ctx, planned.DeepCopyObject().(client.Object), someone); err != nil {
					t.Error(err)
				}
			}
			return server.Update(ctx, planned, opts...)
		},
	})
	var manifest unstructured.Unstructured
	changed := strings.Replace(sample(t, "llm_v1alpha1_llmmodel.yaml"), "4Gi", "8Gi", 1)
	if err := yaml.Unmarshal([]byte(changed), &manifest.Object); err != nil {
		t.Fatal(err)
	}
	made, err := (&plan.Planner{Client: meddled, Namespace: namespace}).Plan(t.Context(), []*unstructured.Unstructured{&manifest})
	if err != nil || writes < 2 || len(made.Changes) != 1 || made.Changes[0].Action != apply.Configured {
		t.Errorf("%v, %v after %d requests", made, err, writes)
	}
}

func (l *live) planned(t *testing.T, namespace, name, manifests string, want []string, refused bool) {
	t.Helper()
	out, _, err := l.run(t, manifests, "plan", "-f", "-", "-n", namespace)
	t.Logf("%s:\n%s", name, out)
	if (err != nil) != refused {
		t.Errorf("%s: %v", name, err)
	}
	for _, each := range want {
		if !strings.Contains(out, each) {
			t.Errorf("%s: %q isn't in it:\n%s", name, each, out)
		}
	}
}

// world makes a namespace that holds the objects of a manifest, with the model
// and the deployment of the specification unless the manifest has them.
func (l *live) world(t *testing.T, manifest string) string {
	t.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cli-"}}
	if err := l.client.Create(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	l.create(t, space.Name, manifest)
	return space.Name
}

func (l *live) create(t *testing.T, namespace, manifests string) {
	t.Helper()
	for _, doc := range strings.Split(manifests, "\n---\n") {
		made := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &made.Object); err != nil {
			t.Fatal(err)
		}
		made.SetNamespace(namespace)
		if err := l.client.Create(t.Context(), made); err != nil {
			t.Fatal(err)
		}
	}
}

// await watches the LLMDeployment until its Ready condition has the reason.
func (l *live) await(t *testing.T, namespace, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitDeadline)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "llm.example.com", Version: "v1alpha1", Kind: "LLMDeploymentList"})
	watcher, err := l.client.Watch(ctx, list, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	last := "none"
	for {
		select {
		case event := <-watcher.ResultChan():
			found, is := event.Object.(*unstructured.Unstructured)
			if !is {
				continue
			}
			conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
			for _, each := range conditions {
				if c, _ := each.(map[string]any); c["type"] == condition.Ready {
					last = fmt.Sprint(c["reason"], ": ", c["message"])
					if c["reason"] == reason {
						return
					}
				}
			}
		case <-ctx.Done():
			t.Fatalf("the reason isn't %s, but %s", reason, last)
		}
	}
}

func sample(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../config/samples", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

func (l *live) status(t *testing.T) {
	model, deployment := sample(t, "llm_v1alpha1_llmmodel.yaml"), sample(t, "llm_v1alpha1_llmdeployment.yaml")
	both := model + "\n---\n" + deployment
	for _, test := range []struct {
		name, world, reason string
		want                []string
	}{
		{"ready", both, "Serving", []string{
			"✓ LLMDeployment/chat-service", "├── ✓ LLMModel/gpt-small", "✓ Deployment/chat-service", "✓ ReplicaSet/chat-service-", "✓ Pod/chat-service-", "✓ PodDisruptionBudget/chat-service", "GPT-Small",
		}},
		{"too few GPUs", strings.Replace(both, `memory: "4Gi"`, "memory: 4Gi\n    gpu: 4", 1), "InsufficientGPU", []string{
			"✗ LLMDeployment/chat-service", "✗ Pod/chat-service-", "Failed", "InsufficientGPU", "nvidia.com/gpu", "lower spec.resources.gpu of LLMModel gpt-small", "next: kubectl describe nodes",
		}},
		{"no model", deployment, "ModelNotFound", []string{"… LLMDeployment/chat-service", "✗ LLMModel/gpt-small", "LLMModel gpt-small"}},
		{"no storage class", strings.Replace(both, "  resources:", "  storage: {size: 1Gi, storageClassName: fast}\n  resources:", 1), "MissingStorageClass", []string{
			"✗ LLMDeployment/chat-service", "StorageClass fast", "next: kubectl get storageclass",
		}},
		{"full quota", "{apiVersion: v1, kind: ResourceQuota, metadata: {name: small}, spec: {hard: {requests.cpu: 1}}}\n---\n" + both, "QuotaExceeded", []string{
			"✗ LLMDeployment/chat-service", "the namespace's quota small is full: 1 requests.cpu are allowed, 0 are used, a pod asks for 2", "describe resourcequota small",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			namespace := l.world(t, test.world)
			l.await(t, namespace, test.reason)
			out, problems, err := l.run(t, "", "status", "llmdep/chat-service", "-n", namespace)
			if err != nil || problems != "" {
				t.Fatalf("%v, %s", err, problems)
			}
			t.Log("\n" + out)
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q isn't in it", want)
				}
			}
		})
	}
	l.listings(t)
}

// watch follows a deployment through a change, and a listing through another.
func (l *live) watch(t *testing.T) {
	model, deployment := sample(t, "llm_v1alpha1_llmmodel.yaml"), sample(t, "llm_v1alpha1_llmdeployment.yaml")
	namespace := l.world(t, model+"\n---\n"+deployment)
	l.await(t, namespace, "Serving")
	tree := l.follow(t, "status", "llmdep/chat-service", "-n", namespace, "--watch", "-o", "wide")
	tree.await(t, "2 replicas of GPT-Small ready")
	listing := l.follow(t, "status", "llmdep", "-n", namespace, "-w")
	listing.await(t, "1 resource: 1 ready")

	key := client.ObjectKey{Namespace: namespace, Name: "chat-service"}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(schema.GroupVersionKind{Group: "llm.example.com", Version: "v1alpha1", Kind: "LLMDeployment"})
	if err := l.client.Get(t.Context(), key, live); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
	if err := l.client.Patch(t.Context(), live, patch); err != nil {
		t.Fatal(err)
	}
	tree.await(t, "3 replicas of GPT-Small ready")
	listing.await(t, "3 replicas of GPT-Small ready")
	if err := l.client.Delete(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	tree.await(t, "error: there is no LLMDeployment chat-service")
	listing.await(t, "There is nothing in namespace "+namespace)
	for _, each := range []*following{tree, listing} {
		views := strings.Split(each.end(t), "\n\n")
		for i := 1; i < len(views); i++ {
			if views[i] == views[i-1] {
				t.Errorf("it shows the same twice:\n%s", views[i])
			}
		}
	}
}

// following is a command that runs until it is ended.
type following struct {
	cancel context.CancelFunc
	done   chan error
	wrote  chan struct{} // a token when there is more

	mu   sync.Mutex
	said bytes.Buffer
}

func (l *live) follow(t *testing.T, args ...string) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{cancel: cancel, done: make(chan error, 1), wrote: make(chan struct{}, 1)}
	root := newRoot(Streams{In: strings.NewReader(""), Out: f, Err: f})
	root.SetArgs(append(args, "--kubeconfig", l.kubeconfig))
	go func() { f.done <- root.ExecuteContext(ctx) }()
	t.Cleanup(cancel)
	return f
}

// Write takes what the command says.
func (f *following) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case f.wrote <- struct{}{}:
	default:
	}
	return f.said.Write(text)
}

func (f *following) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.said.String()
}

// await waits until the command has said something.
func (f *following) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.NewTimer(awaitDeadline)
	defer deadline.Stop()
	for !strings.Contains(f.String(), want) {
		select {
		case <-f.wrote:
		case err := <-f.done:
			t.Fatalf("it ended before it said %q: %v\n%s", want, err, f.String())
		case <-deadline.C:
			t.Fatalf("it never says %q:\n%s", want, f.String())
		}
	}
}

// end does what Ctrl-C does, and gives all that the command has said.
func (f *following) end(t *testing.T) string {
	t.Helper()
	f.cancel()
	if err := <-f.done; err != nil {
		t.Errorf("it ends with %v", err)
	}
	t.Log("\n" + f.String())
	return f.String()
}

// listings looks at what the tests before have left.
func (l *live) listings(t *testing.T) {
	out, _, err := l.run(t, "", "status", "-A")
	if err != nil || !strings.Contains(out, "9 resources: 5 ready, 1 in progress, 3 failed") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err = l.run(t, "", "status", "-A", "-o", "wide"); err != nil || !strings.Contains(out, "IMAGE OR URL") || !strings.Contains(out, "your-registry/gpt-small:v1") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err = l.run(t, "", "status", "llmmodel", "-A", "-o", "json"); err != nil || strings.Count(out, `"kind": "LLMModel"`) != 4 {
		t.Errorf("%v\n%s", err, out)
	}
	_, problems, err := l.run(t, "", "status", "-n", "default")
	if err != nil || !strings.Contains(problems, "nothing in namespace default") {
		t.Errorf("%v\n%s", err, problems)
	}
	_, _, err = l.run(t, "", "status", "llmdep/absent")
	if err == nil || !strings.Contains(err.Error(), "there is no LLMDeployment absent in namespace default") {
		t.Errorf("got %v", err)
	}
}
