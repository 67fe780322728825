// Package pods gives each pod of a NvidiaGpuLlm on a simulated node a real Ollama
// server: a process on an address of the loopback interface that no other has,
// which becomes the pod's. So the operator reaches it as it reaches any pod, and it
// comes and goes with its pod. What a kubelet does beyond that (probes, restarts,
// an end when the probes ask for it, volumes) it doesn't do.
package pods

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/ollama"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
	"github.com/slipway-dev/slipway/test/ollama/server"
)

// Servers are those of one namespace.
type Servers struct {
	t    *testing.T
	kube client.WithWatch

	mu    sync.Mutex
	byPod map[types.UID]*server.Server
	// gone are pods whose server has ended.
	gone map[types.UID]bool
	// disk is the size of each server's store, and filler what something else takes
	// of it, in bytes; zero is without a bound.
	disk, filler int64
}

// Option changes what servers there are.
type Option func(*Servers)

// WithDisk bounds each server's store to size bytes, of which something else takes
// filled until MakeRoom. It needs root.
func WithDisk(size, filled int64) Option {
	return func(s *Servers) { s.disk, s.filler = size, filled }
}

// Serve gives the namespace's pods their servers until the test ends. The caller
// has seen to it that server.Program compiles.
func Serve(t *testing.T, kube client.WithWatch, namespace string, options ...Option) *Servers {
	t.Helper()
	s := &Servers{t: t, kube: kube, byPod: map[types.UID]*server.Server{}, gone: map[types.UID]bool{}}
	for _, option := range options {
		option(s)
	}
	watcher, err := kube.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.follow(t.Context(), watcher)
	}()
	t.Cleanup(func() {
		watcher.Stop()
		<-ended
	})
	return s
}

// Of is a client of a pod's server, nil while it has none.
func (s *Servers) Of(pod types.UID) *ollama.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.byPod[pod]; found != nil {
		return &ollama.Client{BaseURL: found.URL}
	}
	return nil
}

// MakeRoom takes away what fills the servers' disks, of those to come too.
func (s *Servers) MakeRoom() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filler = 0
	for _, each := range s.byPod {
		if err := os.Remove(fillerIn(each)); err != nil {
			s.t.Errorf("make room: %v", err)
		}
	}
}

func fillerIn(s *server.Server) string { return filepath.Join(s.Folder(), "filler") }

func (s *Servers) follow(ctx context.Context, watcher watch.Interface) {
	for event := range watcher.ResultChan() {
		pod, is := event.Object.(*corev1.Pod)
		switch {
		case ctx.Err() != nil:
			return
		case !is:
			continue
		case event.Type == watch.Deleted || pod.DeletionTimestamp != nil:
			s.end(pod)
		case isUp(pod) && !s.knows(pod.UID):
			s.start(ctx, pod)
		}
	}
}

// isUp tells whether the simulated node has started a pod that runs Ollama.
func isUp(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && pod.Status.Phase == corev1.PodRunning &&
		len(pod.Spec.Containers) == 1 && pod.Spec.Containers[0].Name == nvidiagpullm.Container
}

func (s *Servers) knows(pod types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byPod[pod] != nil || s.gone[pod]
}

// start starts a pod's server and gives the pod its address.
func (s *Servers) start(ctx context.Context, pod *corev1.Pod) {
	host := nextHost()
	var env []string
	for _, variable := range pod.Spec.Containers[0].Env {
		if variable.Name != "OLLAMA_HOST" && variable.Name != "HOME" {
			env = append(env, variable.Name+"="+variable.Value)
		}
	}
	made := server.Start(s.t, server.Options{
		Address: net.JoinHostPort(host, strconv.Itoa(nvidiagpullm.Port)), Env: env, Space: s.disk,
	})
	s.mu.Lock()
	s.byPod[pod.UID] = made
	if s.filler > 0 {
		if err := os.WriteFile(fillerIn(made), make([]byte, s.filler), 0o600); err != nil {
			s.t.Errorf("fill the disk of pod %s: %v", pod.Name, err)
		}
	}
	s.mu.Unlock()
	text := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"podIP":%q,"podIPs":[{"ip":%q}]}}`, pod.UID, host, host)
	err := s.kube.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		s.t.Logf("give pod %s its address: %v", pod.Name, err) // it is being replaced, or the test ends
	}
}

func (s *Servers) end(pod *corev1.Pod) {
	s.mu.Lock()
	ending := s.byPod[pod.UID]
	delete(s.byPod, pod.UID)
	s.gone[pod.UID] = true
	s.mu.Unlock()
	if ending != nil {
		ending.Stop(s.t, syscall.SIGKILL)
	}
}

var hosts atomic.Uint32

// nextHost is an address of the loopback interface, other than those before and
// those of most other processes.
func nextHost() string {
	n := hosts.Add(1)
	return net.IPv4(127, byte(16+os.Getpid()%200), byte(n/250), byte(1+n%250)).String()
}
