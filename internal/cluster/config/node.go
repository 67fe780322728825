package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Names of a node's programs.
const (
	Containerd = "containerd"
	Kubelet    = "kubelet"
	KubeProxy  = "kube-proxy"
)

// MaxNodes bounds the real nodes of a cluster: each is a machine's worth of
// programs on one machine.
const MaxNodes = 32

// Paths as a node sees them in its mount namespace.
const (
	NodeRoot     = "/run/slipway"
	NodePrograms = NodeRoot + "/programs"
	NodeFiles    = NodeRoot + "/files"
	// NodeVolumes holds persistent volumes; every node sees the same.
	NodeVolumes      = "/var/lib/slipway/volumes"
	ContainerdSocket = "/run/containerd/containerd.sock"
)

// Addresses on the cluster's bridge.
const (
	Gateway      = "10.243.0.1"
	bridgePrefix = 24
	MirrorPort   = 5000
	APIPort      = 6443
)

// PauseImage is what holds a pod's namespaces.
const PauseImage = "slipway.dev/pause:1"

// Node are the facts from which a node's settings follow.
type Node struct {
	// Index counts from 1.
	Index int
	// Programs is the folder of programs below NodePrograms.
	Programs string
	// Runc is the path of the distribution's runc.
	Runc string
	// CgroupRoot is below which every cgroup of the node's pods lies.
	CgroupRoot string
	// Snapshotter is overlayfs, or native where the state folder's file system
	// can't carry an overlay.
	Snapshotter string
	// RestrictOOM says that the process may not lower an OOM score.
	RestrictOOM bool
	// CPUs is the number that the node advertises; 0 means those it has.
	CPUs int
}

// Name is the node's name.
func (n Node) Name() string { return "node-" + strconv.Itoa(n.Index) }

// Address is the node's address on the bridge.
func (n Node) Address() string { return fmt.Sprintf("10.243.0.%d", 10+n.Index) }

// CIDR is the node's address with the length of the bridge's prefix.
func (n Node) CIDR() string { return fmt.Sprintf("%s/%d", n.Address(), bridgePrefix) }

// GatewayCIDR is the bridge's own address.
func GatewayCIDR() string { return fmt.Sprintf("%s/%d", Gateway, bridgePrefix) }

// PodRange is the range of the node's pods.
func (n Node) PodRange() string { return fmt.Sprintf("10.244.%d.0/24", n.Index) }

func (n Node) program(name string) string { return NodePrograms + "/" + n.Programs + "/" + name }

// Files are the node's configuration files, by their names below NodeFiles,
// without keys and kubeconfigs.
func (n Node) Files() (map[string]string, error) {
	network, err := n.network()
	if err != nil {
		return nil, err
	}
	kubelet, err := yaml.Marshal(n.kubelet())
	if err != nil {
		return nil, fmt.Errorf("render the kubelet's settings: %w", err)
	}
	proxy, err := yaml.Marshal(n.proxy())
	if err != nil {
		return nil, fmt.Errorf("render kube-proxy's settings: %w", err)
	}
	return map[string]string{
		"containerd.toml":             n.containerd(),
		"certs.d/_default/hosts.toml": mirror(),
		"cni/10-slipway.conflist":     network,
		"kubelet.yaml":                string(kubelet),
		"kube-proxy.yaml":             string(proxy),
		"resolv.conf":                 "# Names outside the cluster don't resolve in it.\n",
	}, nil
}

// Command is a program with its arguments and environment.
type Command struct {
	Name string
	Path string
	Args []string
	Env  []string
}

// Commands are the programs of a node, in the order in which they start.
func (n Node) Commands() []Command {
	var kubeletEnv []string
	if n.CPUs > 0 {
		kubeletEnv = append(kubeletEnv, "SLIPWAY_ADVERTISED_CPUS="+strconv.Itoa(n.CPUs))
	}
	return []Command{
		{Name: Containerd, Path: n.program(Containerd), Args: []string{"--config", NodeFiles + "/containerd.toml", "--log-level", "warn"}},
		{Name: Kubelet, Path: n.program(Kubelet), Env: kubeletEnv, Args: []string{
			"--config=" + NodeFiles + "/kubelet.yaml",
			"--kubeconfig=" + NodeFiles + "/kubelet.kubeconfig",
			"--hostname-override=" + n.Name(),
			"--node-ip=" + n.Address(),
		}},
		{Name: KubeProxy, Path: n.program(KubeProxy), Args: []string{
			"--config=" + NodeFiles + "/kube-proxy.yaml",
			"--hostname-override=" + n.Name(),
		}},
	}
}

func (n Node) containerd() string {
	return strings.Join([]string{
		"version = 3",
		"root = '/var/lib/containerd'",
		"state = '/run/containerd'",
		"imports = []",
		"disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs', 'io.containerd.internal.v1.tracing', 'io.containerd.tracing.processor.v1.otlp']",
		"[grpc]",
		fmt.Sprintf("  address = '%s'", ContainerdSocket),
		"[plugins.'io.containerd.cri.v1.images']",
		fmt.Sprintf("  snapshotter = '%s'", n.Snapshotter),
		"[plugins.'io.containerd.cri.v1.images'.pinned_images]",
		fmt.Sprintf("  sandbox = '%s'", PauseImage),
		"[plugins.'io.containerd.cri.v1.images'.registry]",
		fmt.Sprintf("  config_path = '%s/certs.d'", NodeFiles),
		"[plugins.'io.containerd.cri.v1.runtime']",
		fmt.Sprintf("  restrict_oom_score_adj = %t", n.RestrictOOM),
		"[plugins.'io.containerd.cri.v1.runtime'.cni]",
		fmt.Sprintf("  bin_dirs = ['%s']", NodePrograms+"/"+n.Programs),
		fmt.Sprintf("  conf_dir = '%s/cni'", NodeFiles),
		"[plugins.'io.containerd.cri.v1.runtime'.containerd]",
		"  default_runtime_name = 'runc'",
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]",
		"  runtime_type = 'io.containerd.runc.v2'",
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]",
		fmt.Sprintf("  BinaryName = '%s'", n.Runc),
		"  SystemdCgroup = false",
		"",
	}, "\n")
}

// mirror makes containerd ask the cluster's own store of images first, for
// every registry (containerd's docs/hosts.md).
func mirror() string {
	return fmt.Sprintf("[host.\"http://%s:%d\"]\n  capabilities = [\"pull\", \"resolve\"]\n", Gateway, MirrorPort)
}

// network gives each pod a point-to-point link to the node. Unlike a bridge, it
// needs no br_netfilter for a Service's answers to take the way back.
func (n Node) network() (string, error) {
	data, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       "slipway",
		"plugins": []any{
			map[string]any{
				"type":   "ptp",
				"ipMasq": false,
				"ipam": map[string]any{
					"type":    "host-local",
					"dataDir": "/run/cni-ipam",
					"ranges":  []any{[]any{map[string]any{"subnet": n.PodRange()}}},
					"routes":  []any{map[string]any{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{
				"type":         "portmap",
				"backend":      "nftables",
				"capabilities": map[string]any{"portMappings": true},
			},
		},
	}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("render the pod network: %w", err)
	}
	return string(data) + "\n", nil
}

func (n Node) kubelet() map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": NodeFiles + "/ca.crt"},
		},
		"authorization":             map[string]any{"mode": "Webhook"},
		"tlsCertFile":               NodeFiles + "/kubelet.crt",
		"tlsPrivateKeyFile":         NodeFiles + "/kubelet.key",
		"containerRuntimeEndpoint":  "unix://" + ContainerdSocket,
		"cgroupDriver":              "cgroupfs",
		"cgroupRoot":                n.CgroupRoot,
		"failCgroupV1":              false,
		"failSwapOn":                false,
		"makeIPTablesUtilChains":    false,
		"clusterDNS":                []string{DNSAddress},
		"clusterDomain":             ClusterDomain,
		"resolvConf":                NodeFiles + "/resolv.conf",
		"maxPods":                   200,
		"serializeImagePulls":       false,
		"oomScoreAdj":               0,
		"kubeAPIQPS":                200,
		"kubeAPIBurst":              400,
		"eventRecordQPS":            0,
		"nodeStatusUpdateFrequency": "5s",
		"nodeLeaseDurationSeconds":  20,
		"containerLogMaxSize":       "10Mi",
		// The disk is the host's, and how full it is no fault of the cluster.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]any{
			"memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
		},
	}
}

func (n Node) proxy() map[string]any {
	return map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"mode":               "nftables",
		"clusterCIDR":        PodRange,
		"detectLocalMode":    "ClusterCIDR",
		"oomScoreAdj":        0,
		"healthzBindAddress": "127.0.0.1:10256",
		"metricsBindAddress": "127.0.0.1:10249",
		"clientConnection":   map[string]any{"kubeconfig": NodeFiles + "/kube-proxy.kubeconfig", "qps": 100, "burst": 200},
		// Its limit on tracked connections is a setting of the whole machine.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0},
		"nftables":  map[string]any{"minSyncPeriod": "100ms", "syncPeriod": "30s"},
	}
}
