// Package cluster starts, stops and talks to a local Kubernetes: a control
// plane alone on the loopback interface for tests, or a whole cluster with real
// nodes in namespaces of its own. It binds no address but loopback outside the
// namespaces that it makes, and changes no firewall rule, mount or interface of
// the host.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/internal/cluster/config"
	"github.com/slipway-dev/slipway/internal/cluster/process"
)

// Options say what a control plane for tests consists of.
type Options struct {
	// Component says where the programs come from; its zero value compiles those
	// that the user's cache lacks, which takes minutes.
	Component component.Options
	// Dir keeps the data; empty means a temporary folder that Stop removes.
	Dir string
	// ControllerManager makes Deployments have ReplicaSets, namespaces have
	// service accounts, and owners' deletions cascade.
	ControllerManager bool
	// Scheduler gives pods their nodes.
	Scheduler bool
	// SimulatedNodes is the number of nodes that kwok plays. Pods on them are
	// Running and Ready at once and cost no process.
	SimulatedNodes int
	// Shape is what each simulated node offers; its zero value is DefaultShape.
	Shape Shape
}

// ControlPlane is a running API server with its etcd and, if asked for, the
// controller manager, the scheduler and simulated nodes.
type ControlPlane struct {
	settings config.ControlPlane
	programs component.Programs
	group    *process.Group
	dir      *workDir
	admin    *rest.Config

	mu      sync.Mutex
	running map[string]*process.Process
	order   []string
}

// StartControlPlane starts a control plane on free ports of 127.0.0.1 and
// returns when it serves: with a controller manager, the default service account
// exists; with simulated nodes, they are Ready. Its processes die with the
// process that calls this, however that ends.
func StartControlPlane(ctx context.Context, opts Options) (*ControlPlane, error) {
	programs, err := component.Ensure(ctx, opts.Component, component.ControlPlane...)
	if err != nil {
		return nil, err
	}
	dir, err := newWorkDir(opts.Dir)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts()
	if err != nil {
		dir.release()
		return nil, err
	}
	c := &ControlPlane{
		settings: config.ControlPlane{
			Dir: dir.path, Listen: "127.0.0.1", Ports: ports, ServiceAccounts: opts.ControllerManager,
		},
		programs: programs,
		group:    process.NewGroup(dir.path, processEnv(programs.Dir, dir.path)),
		dir:      dir,
		running:  map[string]*process.Process{},
	}
	if err := c.start(ctx, opts); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context, opts Options) error {
	access, err := prepare(c.settings, []string{"127.0.0.1", "localhost"}, "slipway-test")
	if err != nil {
		return err
	}
	if c.admin, err = clientcmd.RESTConfigFromKubeConfig(access); err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	c.admin.QPS = -1 // the API server's own fairness is the only limit
	for _, name := range []string{config.Etcd, config.APIServer} {
		if err := c.launch(name); err != nil {
			return err
		}
	}
	if err := c.wait(ctx, config.APIServer); err != nil {
		return err
	}
	var rest []string
	if opts.ControllerManager {
		rest = append(rest, config.ControllerManager)
	}
	if opts.Scheduler {
		rest = append(rest, config.Scheduler)
	}
	if opts.SimulatedNodes > 0 {
		rest = append(rest, config.Kwok)
	}
	for _, name := range rest {
		if err := c.launch(name); err != nil {
			return err
		}
	}
	for _, name := range rest {
		if err := c.wait(ctx, name); err != nil {
			return err
		}
	}
	return settle(ctx, c.admin, opts)
}

// Config is the administrator's access to the API server, without a client-side
// limit on requests. The caller may change its copy.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *ControlPlane) Kubeconfig() string { return c.settings.Kubeconfig(adminName) }

// Programs are the compiled programs, kubectl among them.
func (c *ControlPlane) Programs() component.Programs { return c.programs }

// StopComponent ends one program (a constant of package config) and leaves the
// rest running. Ending what doesn't run is no error.
func (c *ControlPlane) StopComponent(ctx context.Context, name string) {
	if p := c.take(name); p != nil {
		p.Stop(ctx)
	}
}

// KillComponent ends one program as a crash would.
func (c *ControlPlane) KillComponent(name string) {
	if p := c.take(name); p != nil {
		p.Kill()
	}
}

// StartComponent starts a program that was stopped, on the same port and with
// the same data, and waits until it serves.
func (c *ControlPlane) StartComponent(ctx context.Context, name string) error {
	if err := c.launch(name); err != nil {
		return err
	}
	return c.wait(ctx, name)
}

// Log is the end of what a program wrote, at most 16 KiB.
func (c *ControlPlane) Log(name string) string { return c.group.Tail(name, 16<<10) }

// Stop ends every program and removes the temporary folder. It may be called
// more than once.
func (c *ControlPlane) Stop() {
	c.mu.Lock()
	names := c.order
	c.order = nil
	c.mu.Unlock()
	// Nothing of what they write is wanted any more, so they need no grace.
	for i := len(names) - 1; i >= 0; i-- {
		c.KillComponent(names[i])
	}
	c.group.Close()
	c.dir.release()
}

func (c *ControlPlane) take(name string) *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.running[name]
	delete(c.running, name)
	return p
}

func (c *ControlPlane) launch(name string) error {
	spec, err := controlPlaneSpec(c.settings, c.programs, name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[name] != nil {
		return fmt.Errorf("%s is running already", name)
	}
	p, err := c.group.Start(spec)
	if err != nil {
		return err
	}
	c.running[name] = p
	c.order = append(c.order, name)
	return nil
}

// wait returns when a program serves, or says why it doesn't.
func (c *ControlPlane) wait(ctx context.Context, name string) error {
	c.mu.Lock()
	p := c.running[name]
	c.mu.Unlock()
	if p == nil {
		return fmt.Errorf("%s is not running", name)
	}
	probe, err := newProbe(c.settings, name)
	if err != nil {
		return err
	}
	if err := probe.wait(ctx, p.Done); err != nil {
		return fmt.Errorf("%s does not serve: %w; its log ends: %s", name, err, c.group.Tail(name, 2<<10))
	}
	return nil
}

// controlPlaneSpec is how to run one of the control plane's programs.
func controlPlaneSpec(s config.ControlPlane, programs component.Programs, name string) (process.Spec, error) {
	args := map[string]func() []string{
		config.Etcd:              s.EtcdArgs,
		config.APIServer:         s.APIServerArgs,
		config.ControllerManager: s.ControllerManagerArgs,
		config.Scheduler:         s.SchedulerArgs,
		config.Kwok:              s.KwokArgs,
	}[name]
	if args == nil {
		return process.Spec{}, fmt.Errorf("no component %q", name)
	}
	return process.Spec{Name: name, Path: programs.Path(name), Args: args(), Dir: s.Dir}, nil
}

// processEnv is the environment of a cluster's programs: no variable of the
// user, such as a proxy or KUBECONFIG, leaks into them.
func processEnv(programs, home string) []string {
	return []string{
		"PATH=" + programs + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + home,
		"TMPDIR=" + os.TempDir(),
	}
}

var errEnded = errors.New("it has ended")

// PIDs are the processes that run now.
func (c *ControlPlane) PIDs() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pids []int
	for _, p := range c.running {
		pids = append(pids, p.PID)
	}
	return pids
}
