package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/internal/cluster/config"
)

// DefaultName is the cluster that commands mean without --name.
const DefaultName = "slipway"

// validName bounds names: they become parts of cgroup, file and context names.
var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)

// Spec is what a cluster was asked to be. It is kept in its state folder, so
// that a cluster that died comes back as it was.
type Spec struct {
	Name string `json:"name"`
	// Nodes is the number of real nodes; 0 for a control plane with simulated
	// ones alone.
	Nodes int `json:"nodes"`
	// GPUs is the number that each real node advertises.
	GPUs int `json:"gpus"`
	// SimulatedNodes is the number of nodes that kwok plays.
	SimulatedNodes int `json:"simulatedNodes"`
	// CPUs is the number that each real node advertises.
	CPUs int `json:"cpus"`

	// Port is the API server's on 127.0.0.1.
	Port int `json:"port"`
	// Ports are those of a control plane without namespaces of its own.
	Ports config.Ports `json:"ports"`
	// Programs is the folder of compiled programs.
	Programs string `json:"programs"`
	// BootID tells whether the machine was restarted since.
	BootID string `json:"bootID"`
}

// Namespaced says whether the cluster has namespaces of its own, which real
// nodes need.
func (s Spec) Namespaced() bool { return s.Nodes > 0 }

// Validate says what is wrong with a spec that a user asked for.
func (s Spec) Validate() error {
	switch {
	case !validName.MatchString(s.Name):
		return fmt.Errorf("the cluster name %q must be 1 to 32 lower-case letters, digits and dashes", s.Name)
	case s.Nodes < 0 || s.Nodes > config.MaxNodes:
		return fmt.Errorf("--nodes must be 0 to %d, not %d", config.MaxNodes, s.Nodes)
	case s.GPUs < 0 || s.GPUs > maxGPUs:
		return fmt.Errorf("--gpus must be 0 to %d, not %d", maxGPUs, s.GPUs)
	case s.SimulatedNodes < 0 || s.SimulatedNodes > maxSimulated:
		return fmt.Errorf("--simulated-nodes must be 0 to %d, not %d", maxSimulated, s.SimulatedNodes)
	case s.Nodes == 0 && s.SimulatedNodes == 0:
		return errors.New("a cluster needs a node: give --nodes or --simulated-nodes")
	default:
		return nil
	}
}

// Bounds of what may be asked for. A machine has 16 GPUs at most; beyond the
// second number one API server on a laptop no longer keeps up with the leases.
const (
	maxGPUs      = 128
	maxSimulated = 5000
)

// folder is a cluster's state folder.
type folder string

// stateRoot is where the state of all clusters lies: $SLIPWAY_STATE, or
// slipway/clusters in the user's state folder.
func stateRoot() (string, error) {
	if dir := os.Getenv("SLIPWAY_STATE"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "slipway", "clusters"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || home == "" {
		return "", errors.New("no folder for the cluster's state: set SLIPWAY_STATE or HOME")
	}
	return filepath.Join(home, ".local", "state", "slipway", "clusters"), nil
}

func folderOf(name string) (folder, error) {
	if !validName.MatchString(name) {
		return "", fmt.Errorf("the cluster name %q must be 1 to 32 lower-case letters, digits and dashes", name)
	}
	root, err := stateRoot()
	if err != nil {
		return "", err
	}
	return folder(filepath.Join(root, name)), nil
}

func (f folder) path(parts ...string) string {
	return filepath.Join(append([]string{string(f)}, parts...)...)
}

func (f folder) specFile() string       { return f.path("cluster.json") }
func (f folder) supervisorFile() string { return f.path("supervisor.json") }
func (f folder) socket() string         { return f.path("control.sock") }
func (f folder) logs() string           { return f.path("logs") }
func (f folder) kubeconfig() string     { return f.path("kubeconfig") }
func (f folder) binary() string         { return f.path("slipway") }
func (f folder) images() string         { return f.path("images") }
func (f folder) volumes() string        { return f.path("volumes") }

// lockFile lies beside the folder, which comes and goes.
func (f folder) lockFile() string { return string(f) + ".lock" }

func (f folder) node(name string, parts ...string) string {
	return f.path(append([]string{"nodes", name}, parts...)...)
}

// controlPlane are the facts of the control plane in this folder.
func (f folder) controlPlane(s Spec) config.ControlPlane {
	c := config.ControlPlane{
		Dir: f.path("control-plane"), Listen: "127.0.0.1", Ports: s.Ports,
		Durable: true, ServiceAccounts: true,
	}
	if s.Namespaced() {
		c.Listen, c.NodeAccess, c.QuickEviction = config.Gateway, true, true
	}
	return c
}

// namespacedPorts are the control plane's ports in a namespace of its own,
// where nobody else has any.
func namespacedPorts() config.Ports {
	return config.Ports{
		Etcd: 2379, EtcdPeer: 2380, APIServer: config.APIPort,
		ControllerManager: 10257, Scheduler: 10259, Kwok: 10247,
	}
}

func (f folder) writeSpec(s Spec) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the cluster's description: %w", err)
	}
	return writeFile(f.specFile(), append(data, '\n'))
}

// readSpec returns nil if there is no cluster.
func (f folder) readSpec() (*Spec, error) {
	data, err := os.ReadFile(f.specFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster's description: %w", err)
	}
	var s Spec
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s is damaged; run slipway down to remove the cluster: %w", f.specFile(), err)
	}
	return &s, nil
}

// supervisor identifies the process that runs a cluster. A process number may
// be given out again, its start time with it may not.
type supervisor struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`
}

func (f folder) readSupervisor() supervisor {
	var s supervisor
	data, err := os.ReadFile(f.supervisorFile())
	if err != nil || json.Unmarshal(data, &s) != nil {
		return supervisor{}
	}
	return s
}

// alive says whether the process still runs.
func (s supervisor) alive() bool {
	if s.PID <= 0 {
		return false
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID) + "/stat")
	if err != nil {
		return false
	}
	stat := parseStat(string(data))
	return stat.running && stat.start == s.Start
}

// stat is what /proc/PID/stat tells of a process.
type stat struct {
	// running is false for a zombie: a process that waits for its parent alone.
	// One whose threads are still ending runs.
	running bool
	// start is its start time in clock ticks since the machine started.
	start string
}

// parseStat reads /proc/PID/stat (proc_pid_stat(5)). Of what it can't read it
// says that it doesn't run.
func parseStat(line string) stat {
	// The name, in parentheses, may hold anything; what follows it may not.
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return stat{}
	}
	state, threads, start := fields[0], fields[17], fields[19]
	ended := state == "X" || (state == "Z" && (threads == "1" || threads == "0"))
	return stat{running: !ended, start: start}
}

// identify makes a process known again later.
func identify(pid int) supervisor {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return supervisor{PID: pid}
	}
	return supervisor{PID: pid, Start: parseStat(string(data)).start}
}

func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
