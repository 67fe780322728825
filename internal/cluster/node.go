package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/cluster/config"
	"github.com/slipway-dev/slipway/internal/cluster/pki"
	"github.com/slipway-dev/slipway/internal/cluster/process"
)

// nodeKeeper runs one node and can be told to stop.
type nodeKeeper struct {
	node    config.Node
	stop    context.CancelFunc
	stopped chan struct{}
	pid     int // of the node's first process; 0 while none runs
	filled  bool
}

// namespaces are those that the cluster and each node have of their own.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// StartNode starts a node that doesn't run.
func (s *supervision) StartNode(ctx context.Context, name string) error {
	index := slices.IndexFunc(s.allNodes(), func(n config.Node) bool { return n.Name() == name })
	if index < 0 {
		return fmt.Errorf("the cluster has no node %q", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[name] != nil {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	k := &nodeKeeper{node: s.allNodes()[index], stop: stop, stopped: make(chan struct{})}
	s.nodes[name] = k
	s.work.Go(func() {
		defer close(k.stopped)
		s.keepNode(ctx, k)
	})
	return nil
}

// StopNode ends a node at once, as if its machine had lost power, until
// StartNode.
func (s *supervision) StopNode(name string) error {
	s.mu.Lock()
	k := s.nodes[name]
	delete(s.nodes, name)
	s.mu.Unlock()
	if k == nil {
		return fmt.Errorf("no node %q runs", name)
	}
	k.stop()
	<-k.stopped
	return nil
}

// allNodes are the real nodes that the cluster was asked for.
func (s *supervision) allNodes() []config.Node {
	var nodes []config.Node
	for i := 1; i <= s.spec.Nodes; i++ {
		nodes = append(nodes, config.Node{
			Index:       i,
			Programs:    filepath.Base(s.spec.Programs),
			Runc:        findProgram("runc"),
			CgroupRoot:  "/" + cgroupDir(s.spec.Name) + "/" + config.Node{Index: i}.Name(),
			Snapshotter: "overlayfs",
			RestrictOOM: !mayLowerOOMScore(),
			CPUs:        s.spec.CPUs,
		})
	}
	return nodes
}

// mayLowerOOMScore says whether the process holds CAP_SYS_RESOURCE.
func mayLowerOOMScore() bool { return hasCapability(unix.CAP_SYS_RESOURCE) }

func (s *supervision) keepNode(ctx context.Context, k *nodeKeeper) {
	var linked *os.File // our end of the pipe that tells the node of its link
	var inherited *os.File
	s.group.Keep(ctx,
		func() (process.Spec, error) {
			facts, err := s.prepareNode(k.node)
			if err != nil {
				return process.Spec{}, err
			}
			if inherited, linked, err = os.Pipe(); err != nil {
				return process.Spec{}, fmt.Errorf("make a pipe: %w", err)
			}
			return process.Spec{
				Name: k.node.Name(), Path: s.folder.binary(), Args: []string{"cluster-node", facts}, Dir: "/",
				Attr:  &syscall.SysProcAttr{Cloneflags: namespaces},
				Files: []*os.File{inherited},
			}, nil
		},
		func(p *process.Process) {
			inherited.Close()
			defer linked.Close()
			s.setNodePID(k, p.PID)
			if err := linkNode(ctx, k.node, p.PID); err != nil {
				fmt.Fprintf(os.Stderr, "link %s: %v\n", k.node.Name(), err)
				p.Kill()
				return
			}
			if _, err := linked.Write([]byte{1}); err != nil {
				return // it has ended, which Keep sees
			}
			s.work.Go(func() { s.fillNode(ctx, k, p) })
		},
		func(err error, pause time.Duration) {
			s.setNodePID(k, 0)
			fmt.Fprintf(os.Stderr, "%s ended: %v; starting it again in %s\n", k.node.Name(), err, pause)
		})
}

func (s *supervision) setNodePID(k *nodeKeeper, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.pid, k.filled = pid, false
}

// filled says whether every node that wasn't stopped has the cluster's images.
func (s *supervision) filled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.nodes {
		if !k.filled {
			return false
		}
	}
	return true
}

// prepareNode makes a node's control group, keys and configuration files, and
// returns the file with its facts.
func (s *supervision) prepareNode(n config.Node) (string, error) {
	if _, err := s.cgroups.make(n.Name()); err != nil {
		return "", err
	}
	dir := s.folder.node(n.Name(), "files")
	files, err := n.Files()
	if err != nil {
		return "", err
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", fmt.Errorf("make a folder of %s: %w", n.Name(), err)
		}
		if err := writeFile(path, []byte(text)); err != nil {
			return "", err
		}
	}
	if err := s.writeNodeKeys(n, dir); err != nil {
		return "", err
	}
	data, err := json.Marshal(nodeFacts{
		Node: n, Nodes: s.spec.Nodes, Dir: s.folder.node(n.Name()),
		Programs: filepath.Dir(s.spec.Programs), Volumes: s.folder.volumes(),
	})
	if err != nil {
		return "", fmt.Errorf("encode the facts of %s: %w", n.Name(), err)
	}
	facts := s.folder.node(n.Name(), "facts.json")
	return facts, writeFile(facts, data)
}

func (s *supervision) writeNodeKeys(n config.Node, dir string) error {
	now := time.Now()
	authority, err := keepAuthority(s.settings, "ca", now)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, "ca.crt"), authority.Certificate); err != nil {
		return err
	}
	serving, err := authority.Issue(pki.Subject{Name: n.Name(), Hosts: []string{n.Name(), n.Address()}}, now)
	if err != nil {
		return err
	}
	if err := writePair(filepath.Join(dir, "kubelet"), serving); err != nil {
		return err
	}
	users := map[string]pki.Subject{
		config.Kubelet:   {Name: "system:node:" + n.Name(), Groups: []string{"system:nodes"}},
		config.KubeProxy: {Name: "system:kube-proxy"},
	}
	for name, subject := range users {
		pair, err := authority.Issue(subject, now)
		if err != nil {
			return err
		}
		data, err := config.Kubeconfig(config.Access{
			Cluster: contextName(s.spec.Name), Server: fmt.Sprintf("https://%s:%d", config.Gateway, config.APIPort),
			User: subject.Name, CA: authority.Certificate, Certificate: pair.Certificate, Key: pair.Key,
		})
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, name+".kubeconfig"), data); err != nil {
			return err
		}
	}
	return nil
}

// fillNode gives a node the cluster's images as soon as its containerd answers.
func (s *supervision) fillNode(ctx context.Context, k *nodeKeeper, p *process.Process) {
	ctx, cancel := context.WithTimeout(ctx, settleDeadline)
	defer cancel()
	go func() {
		select {
		case <-p.Done:
			cancel()
		case <-ctx.Done():
		}
	}()
	socket := containerdSocket(p.PID)
	err := poll(ctx, "wait for containerd", func() bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	if err == nil {
		err = s.importImages(ctx, socket)
	}
	if err != nil {
		if ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "give %s its images: %v\n", k.node.Name(), err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.filled = k.pid == p.PID
}

// containerdSocket is the way into a node's mount namespace, whose first process
// is pid.
func containerdSocket(pid int) string {
	return fmt.Sprintf("/proc/%d/root%s", pid, config.ContainerdSocket)
}

// nodeStates lists the real nodes.
func (s *supervision) nodeStates() []NodeStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make([]NodeStatus, 0, s.spec.Nodes)
	for i := 1; i <= s.spec.Nodes; i++ {
		name := config.Node{Index: i}.Name()
		k := s.nodes[name]
		states = append(states, NodeStatus{Name: name, Running: k != nil && k.pid != 0})
	}
	return states
}

// sockets are those of the containerds that run now.
func (s *supervision) sockets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sockets []string
	for _, k := range s.nodes {
		if k.pid != 0 {
			sockets = append(sockets, containerdSocket(k.pid))
		}
	}
	return sockets
}

// readBounded reads a small answer.
func readBounded(r io.Reader) string {
	data, err := io.ReadAll(io.LimitReader(r, 64<<10))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
