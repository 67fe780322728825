package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-dev/slipway/internal/simulator"
)

// deadline bounds each wait for the picker or the sidecar.
const deadline = 2 * time.Minute

// prefillDecode is a configuration with every plugin that requests with separate
// prefill need.
const prefillDecode = `
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: prefill-header-handler}
- {type: prefix-cache-scorer, parameters: {blockSize: 20, maxPrefixBlocksToMatch: 256, lruCapacityPerServer: 31250}}
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
- {type: prefill-filter}
- {type: decode-filter}
- {type: max-score-picker}
- {type: pd-profile-handler, parameters: {threshold: 0, hashBlockSize: 5}}
schedulingProfiles:
- name: prefill
  plugins: [{pluginRef: prefill-filter}, {pluginRef: queue-scorer, weight: 1}, {pluginRef: max-score-picker}]
- name: decode
  plugins: [{pluginRef: decode-filter}, {pluginRef: prefix-cache-scorer, weight: 3}, {pluginRef: queue-scorer, weight: 2}, {pluginRef: kv-cache-utilization-scorer, weight: 2}, {pluginRef: max-score-picker}]
`

var pools = schema.GroupVersionResource{Group: "inference.networking.k8s.io", Version: "v1", Resource: "inferencepools"}

// TestPickerServesWhileItsPoolExists runs the picker with no more rights than it
// is documented to need.
func TestPickerServesWhileItsPoolExists(t *testing.T) {
	ownNetwork(t)
	kube, err := kubernetes.NewForConfig(plane)
	if err != nil {
		t.Fatal(err)
	}
	custom, err := dynamic.NewForConfig(plane)
	if err != nil {
		t.Fatal(err)
	}
	namespace := newNamespace(t, kube)
	engine := newEngine(t)
	number, err := strconv.ParseInt(engine.port(t), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	grpc, health, metrics := freePort(t), freePort(t), freePort(t)
	picker := start(t, programs.Path("epp"),
		"--kubeconfig", pickerAccess(t, kube, namespace), "--pool-name=pool", "--pool-namespace="+namespace,
		"--config-text="+prefillDecode, "--secure-serving=false", "--metrics-endpoint-auth=false", "--tracing=false",
		"--grpc-port="+grpc, "--grpc-health-port="+health, "--metrics-port="+metrics,
		"--refresh-prometheus-metrics-interval=50ms", "--zap-encoder=json", "-v=1",
	)
	picker.await(t, "the picker says that it doesn't serve", func(ctx context.Context) bool { return serving(ctx, health) == notServing })

	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": pools.GroupVersion().String(), "kind": "InferencePool",
		"metadata": map[string]any{"name": "pool"},
		"spec": map[string]any{
			"selector":          map[string]any{"matchLabels": map[string]any{"engine": "simulated"}},
			"targetPorts":       []any{map[string]any{"number": number}},
			"endpointPickerRef": map[string]any{"name": "epp", "port": map[string]any{"number": int64(9002)}},
		},
	}}
	if _, err := custom.Resource(pools).Namespace(namespace).Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	picker.await(t, "the picker serves", func(ctx context.Context) bool { return serving(ctx, health) == isServing })

	addEngine(t, kube, namespace)
	picker.await(t, "the picker reads the engine's metrics", func(ctx context.Context) bool {
		return strings.Contains(get(ctx, "http://127.0.0.1:"+metrics+"/metrics"), `inference_pool_ready_pods{name="pool"} 1`)
	})

	if err := custom.Resource(pools).Namespace(namespace).Delete(t.Context(), "pool", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	picker.await(t, "the picker no longer serves", func(ctx context.Context) bool { return serving(ctx, health) == notServing })
}

// TestSidecarPrefillsElsewhere sends a request through the sidecar to two
// simulators: one that prefills, and one that decodes what the other prefilled.
func TestSidecarPrefillsElsewhere(t *testing.T) {
	ownNetwork(t)
	prefill, decode := newEngine(t), newEngine(t)
	port := freePort(t)
	sidecar := start(t, programs.Path("pd-sidecar"),
		"--port="+port, "--vllm-port="+decode.port(t), "--connector=nixlv2", "--secure-proxy=false")
	sidecar.await(t, "the sidecar passes requests on", func(ctx context.Context) bool {
		return strings.Contains(get(ctx, "http://127.0.0.1:"+port+"/v1/models"), `"id":"m"`)
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+port+"/v1/completions",
		strings.NewReader(`{"model": "m", "prompt": "a b c d", "max_tokens": 4}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("x-prefiller-host-port", strings.TrimPrefix(prefill.server.URL, "http://"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"text_completion"`) {
		t.Fatalf("the answer is %d %s (%v)", response.StatusCode, body, err)
	}
	first, second := prefill.completion(t), decode.completion(t)
	if first.MaxTokens != 1 || !first.Transfer.RemoteDecode {
		t.Errorf("the engine that prefills was asked for %+v, want one token and a remote decode", first)
	}
	if second.MaxTokens != 4 || !second.Transfer.RemotePrefill || second.Transfer.Host == "" {
		t.Errorf("the engine that decodes was asked for %+v, want four tokens and the other's cache", second)
	}
}

// newNamespace makes a namespace for a test.
func newNamespace(t *testing.T, kube kubernetes.Interface) string {
	t.Helper()
	namespace, err := kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "sim-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// addEngine makes a pod that the pool selects and that is ready at 127.0.0.1,
// where a simulator listens. No node runs it.
func addEngine(t *testing.T, kube kubernetes.Interface, namespace string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "engine", Labels: map[string]string{"engine": "simulated"}},
		Spec: corev1.PodSpec{
			SchedulerName: "none", Containers: []corev1.Container{{Name: "engine", Image: "engine"}},
		},
	}
	pod, err := kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "127.0.0.1", PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	if _, err := kube.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// pickerAccess gives a service account the rights that a picker needs, and
// returns a kubeconfig file for it.
func pickerAccess(t *testing.T, kube kubernetes.Interface, namespace string) string {
	t.Helper()
	read := []string{"get", "list", "watch"}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "epp"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"inference.networking.k8s.io"}, Resources: []string{"inferencepools"}, Verbs: read},
		{APIGroups: []string{"inference.networking.x-k8s.io"}, Resources: []string{"inferencepools", "inferenceobjectives"}, Verbs: read},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: read},
	}}
	if _, err := kube.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "epp"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "epp"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "epp", Namespace: namespace}},
	}
	if _, err := kube.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	accounts := kube.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "epp"}}
	if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), "epp", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	access := clientcmdapi.NewConfig()
	access.Clusters["test"] = &clientcmdapi.Cluster{Server: plane.Host, CertificateAuthorityData: plane.CAData}
	access.AuthInfos["epp"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	access.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "epp"}
	access.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*access, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// process is a program under test.
type process struct {
	log   *bytes.Buffer
	ended chan struct{}
}

// start runs a program until the test is over.
func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := &process{log: &bytes.Buffer{}, ended: make(chan struct{})}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.Env = append(os.Environ(), "POD_NAME=epp-0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(deadline):
			_ = cmd.Process.Kill()
			<-p.ended
			t.Errorf("%s doesn't end on SIGTERM", filepath.Base(path))
		}
	})
	return p
}

// await asks until something is so, as long as the program runs.
func (p *process) await(t *testing.T, what string, is func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is(ctx) {
		select {
		case <-tick.C:
		case <-p.ended:
			t.Fatalf("before %s, it ended: %s", what, p.log)
		case <-ctx.Done():
			t.Fatalf("after %s it isn't so that %s", deadline, what)
		}
	}
}

// freePort is a port that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// get is what an address answers with 200, or empty.
func get(ctx context.Context, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// What a gRPC health service answers (grpc.health.v1, ServingStatus).
const (
	isServing  = 1
	notServing = 2
)

// serving asks the gRPC health service on a port for the whole server's status;
// -1 if there is no answer. It speaks gRPC over HTTP/2 by itself, since one empty
// message and one number are all that is said.
func serving(ctx context.Context, port string) int {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	empty := []byte{0, 0, 0, 0, 0} // not compressed, no bytes
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		fmt.Sprintf("http://127.0.0.1:%s/grpc.health.v1.Health/Check", port), bytes.NewReader(empty))
	if err != nil {
		return -1
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("TE", "trailers")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return -1
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	// Five bytes of framing, then field 1 as a varint.
	if err != nil || len(body) != len(empty)+2 || body[5] != 1<<3 {
		return -1
	}
	return int(body[6])
}

// engine is a simulator that keeps the completions that it was asked for.
type engine struct {
	server *httptest.Server
	mu     sync.Mutex
	asked  []completion
}

// completion is what matters here of a request.
type completion struct {
	MaxTokens int `json:"max_tokens"`
	Transfer  struct {
		RemoteDecode  bool   `json:"do_remote_decode"`
		RemotePrefill bool   `json:"do_remote_prefill"`
		Host          string `json:"remote_host"`
	} `json:"kv_transfer_params"`
}

// newEngine starts a simulator of the model m on loopback.
func newEngine(t *testing.T) *engine {
	t.Helper()
	config, err := simulator.Load([]string{"--model", "m", "--seed", "1"}, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	simulated := simulator.New(config, simulator.SystemClock{})
	e := &engine{}
	e.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Method == http.MethodPost {
			var asked completion
			if err := json.Unmarshal(body, &asked); err != nil {
				t.Error(err)
			}
			e.mu.Lock()
			e.asked = append(e.asked, asked)
			e.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		simulated.ServeHTTP(w, r)
	}))
	t.Cleanup(e.server.Close)
	return e
}

func (e *engine) port(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(e.server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// completion is the only one that the engine was asked for.
func (e *engine) completion(t *testing.T) completion {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.asked) != 1 {
		t.Fatalf("the engine was asked for %d completions, want one", len(e.asked))
	}
	return e.asked[0]
}
