package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/internal/cluster/config"
	"github.com/slipway-dev/slipway/internal/cluster/pki"
	"github.com/slipway-dev/slipway/internal/cluster/process"
)

// supervision is a running cluster, as the process that runs it sees it.
type supervision struct {
	folder   folder
	spec     Spec
	settings config.ControlPlane
	programs component.Programs
	group    *process.Group
	cgroups  cgroups
	store    *imageStore
	access   *rest.Config
	client   kubernetes.Interface
	// begun is when the cluster was started, this time.
	begun time.Time

	// given is closed for a program that is given up on. Only the goroutine that
	// brings the cluster up touches the map.
	given map[string]chan struct{}

	mu     sync.Mutex
	status Status
	nodes  map[string]*nodeKeeper
	work   sync.WaitGroup
}

// Status is how far a cluster has come.
type Status struct {
	// Ready says that every node takes pods and cluster DNS answers.
	Ready bool `json:"ready"`
	// Doing is what the cluster waits for while it isn't ready.
	Doing string `json:"doing"`
	// Failed is why it will not become ready.
	Failed string       `json:"failed,omitempty"`
	Nodes  []NodeStatus `json:"nodes"`
}

// NodeStatus is the state of a real node's processes.
type NodeStatus struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`
}

// Supervise runs the cluster whose state is in dir until ctx ends. It is the
// first process of the cluster's namespaces, if that has its own; descriptor 3
// is then the host's listener for the API server. Everything that it starts dies
// with it.
func Supervise(ctx context.Context, dir string) error {
	f := folder(dir)
	spec, err := f.readSpec()
	if err != nil {
		return err
	}
	if spec == nil {
		return fmt.Errorf("%s holds no cluster", dir)
	}
	s := &supervision{
		folder:   f,
		spec:     *spec,
		settings: f.controlPlane(*spec),
		programs: component.Programs{Dir: spec.Programs},
		group:    process.NewGroup(f.logs(), processEnv(spec.Programs, f.path("control-plane"))),
		cgroups:  cgroups{mount: cgroupMount, cluster: spec.Name},
		store:    newImageStore(f.images()),
		nodes:    map[string]*nodeKeeper{},
		given:    map[string]chan struct{}{},
		begun:    time.Now(),
	}
	if spec.Namespaced() {
		if err := s.isolate(ctx); err != nil {
			return err
		}
	}
	closeControl, err := s.serveControl(ctx)
	if err != nil {
		return err
	}
	defer closeControl()
	s.work.Go(func() { s.group.TrimLogs(ctx) })
	if err := s.bringUp(ctx); err != nil && ctx.Err() == nil {
		s.update(func(st *Status) { st.Failed = strings.Join(strings.Fields(err.Error()), " ") })
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	<-ctx.Done()
	s.work.Wait()
	return nil
}

// isolate prepares the namespaces that the process was born in: it leaves the
// host's mounts, gets a view of its own processes, and makes the network.
func (s *supervision) isolate(ctx context.Context) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	file := os.NewFile(3, "listener")
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("take over the host's listener: %w", err)
	}
	file.Close()
	if err := setupClusterNetwork(ctx, s.spec.Nodes); err != nil {
		return err
	}
	go forward(ctx, listener, fmt.Sprintf("%s:%d", config.Gateway, config.APIPort))
	return s.serveMirror(ctx)
}

// bringUp starts everything, and returns when the cluster is ready.
func (s *supervision) bringUp(ctx context.Context) error {
	s.doing("starting the control plane")
	if err := s.startControlPlane(ctx); err != nil {
		return err
	}
	for i := 1; i <= s.spec.Nodes; i++ {
		if err := s.StartNode(ctx, config.Node{Index: i}.Name()); err != nil {
			return err
		}
	}
	if s.spec.Namespaced() {
		if err := s.applyBase(ctx); err != nil {
			return err
		}
		s.work.Go(func() { s.runControllers(ctx) })
	}
	if s.spec.SimulatedNodes > 0 {
		s.doing(fmt.Sprintf("adding %d simulated nodes", s.spec.SimulatedNodes))
		shape := DefaultShape()
		shape.GPUs, shape.Tainted = s.spec.GPUs, s.spec.Namespaced()
		if err := CreateSimulatedNodes(ctx, s.client, s.spec.SimulatedNodes, shape); err != nil {
			return err
		}
	}
	if s.spec.Namespaced() {
		if err := s.waitReal(ctx); err != nil {
			return err
		}
	}
	s.update(func(st *Status) { st.Ready, st.Doing = true, "" })
	return nil
}

// waitReal waits for the real nodes and for cluster DNS.
func (s *supervision) waitReal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleDeadline)
	defer cancel()
	s.doing("waiting for the nodes to be ready")
	if err := waitNodes(ctx, s.client, s.spec.Nodes, metav1.ListOptions{LabelSelector: "!" + simulatedLabel}); err != nil {
		return err
	}
	s.doing("waiting for the nodes to have their images")
	if err := poll(ctx, "wait for the nodes to have their images", s.filled); err != nil {
		return err
	}
	s.doing("waiting for cluster DNS")
	return poll(ctx, "wait for cluster DNS", func() bool {
		pods, err := s.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		return err == nil && settled(pods.Items, s.begun)
	})
}

// settled says whether cluster DNS serves, and no pod still reports the state
// that it had before the nodes started: after a recovery, kubelets need a moment
// to notice that the containers of before are gone.
func settled(pods []corev1.Pod, begun time.Time) bool {
	dns := false
	for i := range pods {
		pod := &pods[i]
		if strings.HasPrefix(pod.Spec.NodeName, simulatedPrefix) || !podReady(pod) {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			// Times in the API are cut to seconds.
			if c.State.Running != nil && c.State.Running.StartedAt.Time.Before(begun.Truncate(time.Second)) {
				return false
			}
		}
		dns = dns || pod.Labels["k8s-app"] == "kube-dns"
	}
	return dns
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

func (s *supervision) startControlPlane(ctx context.Context) error {
	access, err := prepare(s.settings, []string{"127.0.0.1", "localhost"}, contextName(s.spec.Name))
	if err != nil {
		return err
	}
	if s.access, err = clientcmd.RESTConfigFromKubeConfig(access); err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	s.access.QPS = -1
	if s.client, err = kubernetes.NewForConfig(s.access); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := s.writeUserKubeconfig(); err != nil {
		return err
	}
	s.keep(ctx, config.Etcd)
	s.keep(ctx, config.APIServer)
	if err := s.waitComponent(ctx, config.APIServer); err != nil {
		return err
	}
	rest := []string{config.ControllerManager, config.Scheduler}
	if s.spec.SimulatedNodes > 0 {
		rest = append(rest, config.Kwok)
	}
	for _, name := range rest {
		s.keep(ctx, name)
	}
	for _, name := range rest {
		if err := s.waitComponent(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// hopeless is how often a program may end before it first serves.
const hopeless = 5

// keep runs one of the control plane's programs as long as the cluster.
func (s *supervision) keep(ctx context.Context, name string) {
	given := make(chan struct{})
	s.given[name] = given
	ends := 0
	s.work.Go(func() {
		s.group.Keep(ctx,
			func() (process.Spec, error) { return controlPlaneSpec(s.settings, s.programs, name) },
			nil,
			func(err error, pause time.Duration) {
				fmt.Fprintf(os.Stderr, "%s ended: %v; starting it again in %s\n", name, err, pause)
				if ends++; ends == hopeless {
					close(given)
				}
			})
	})
}

// waitComponent waits until a program serves, or one that it needs won't.
func (s *supervision) waitComponent(ctx context.Context, name string) error {
	probe, err := newProbe(s.settings, name)
	if err != nil {
		return err
	}
	// The API server ends for want of etcd, whose log then says why.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	etcd, program := s.given[config.Etcd], s.given[name]
	go func() {
		select {
		case <-etcd:
			cancel(fmt.Errorf("etcd keeps ending; its log ends: %s", s.group.Tail(config.Etcd, 300)))
		case <-program:
			cancel(fmt.Errorf("%s keeps ending; its log ends: %s", name, s.group.Tail(name, 300)))
		case <-ctx.Done():
		}
	}()
	if err := probe.wait(ctx, nil); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return fmt.Errorf("%s does not serve: %w; its log ends: %s", name, err, s.group.Tail(name, 2<<10))
	}
	return nil
}

// writeUserKubeconfig writes the administrator's kubeconfig for the host.
func (s *supervision) writeUserKubeconfig() error {
	authority, err := keepAuthority(s.settings, "ca", time.Now())
	if err != nil {
		return err
	}
	pair, err := authority.Issue(pki.Subject{Name: adminName, Groups: []string{"system:masters"}}, time.Now())
	if err != nil {
		return err
	}
	name := contextName(s.spec.Name)
	data, err := config.Kubeconfig(config.Access{
		Cluster: name, Server: fmt.Sprintf("https://127.0.0.1:%d", s.spec.Port), User: name,
		CA: authority.Certificate, Certificate: pair.Certificate, Key: pair.Key,
	})
	if err != nil {
		return err
	}
	return writeFile(s.folder.kubeconfig(), data)
}

// contextName is the name of a cluster's context in a kubeconfig.
func contextName(cluster string) string {
	if cluster == DefaultName {
		return cluster
	}
	return "slipway-" + cluster
}

// applyBase makes the objects that every cluster holds, as kubectl would.
func (s *supervision) applyBase(ctx context.Context) error {
	s.doing("adding cluster DNS and the default StorageClass")
	ctx, cancel := context.WithTimeout(ctx, settleDeadline)
	defer cancel()
	var last error
	err := poll(ctx, "add the cluster's own objects", func() bool {
		cmd := exec.CommandContext(ctx, s.programs.Path("kubectl"), "--kubeconfig", s.settings.Kubeconfig(adminName),
			"apply", "--server-side", "--force-conflicts", "--field-manager=slipway-cluster", "-f", "-")
		cmd.Stdin = strings.NewReader(config.Base)
		cmd.Env = processEnv(s.programs.Dir, s.settings.Dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			last = fmt.Errorf("%w: %s", err, out)
		}
		return err == nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

func (s *supervision) doing(what string) {
	s.update(func(st *Status) { st.Doing = what })
}

func (s *supervision) update(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

// poll waits for something that nobody announces; ctx bounds it.
func poll(ctx context.Context, what string, done func() bool) error {
	tick := time.NewTicker(2 * probeInterval)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}
