// Package config renders what the programs of a local cluster are started
// with: command lines, configuration files and kubeconfigs. It is pure: facts
// in, text out; it reads no file, picks no port and starts nothing.
package config

import (
	_ "embed" // for the stages of simulated nodes
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Address ranges of a cluster. They exist only inside its own network
// namespace, so they are the same for every cluster and clash with nothing.
const (
	ServiceRange  = "10.96.0.0/16"
	ServiceFirst  = "10.96.0.1" // the API server's Service, always the first address
	DNSAddress    = "10.96.0.10"
	PodRange      = "10.244.0.0/16"
	ClusterDomain = "cluster.local"
)

// Names of the control plane's programs.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

// ControlPlane are the facts from which the control plane's settings follow.
type ControlPlane struct {
	// Dir holds pki/, etcd/ and the kubeconfigs.
	Dir string
	// Listen is the address that the API server binds; clients inside the
	// cluster reach it there too.
	Listen string
	// Ports of the programs, all different.
	Ports Ports
	// Durable makes etcd flush every write to the disk. Tests do without: what
	// they write need not outlive a power failure.
	Durable bool
	// ServiceAccounts says that a controller manager makes them, so that pods may
	// be required to have one.
	ServiceAccounts bool
	// QuickEviction makes a dead node show within half a minute, not five.
	QuickEviction bool
	// NodeAccess is set where real kubelets are to be reached.
	NodeAccess bool
}

// Ports are the TCP ports of the control plane.
type Ports struct {
	Etcd, EtcdPeer, APIServer, ControllerManager, Scheduler, Kwok int
}

// PKI is the path of a file with a key or certificate.
func (c ControlPlane) PKI(file string) string { return filepath.Join(c.Dir, "pki", file) }

// Kubeconfig is the path of the kubeconfig of a program or user.
func (c ControlPlane) Kubeconfig(name string) string {
	return filepath.Join(c.Dir, name+".kubeconfig")
}

// SchedulerFile is the path of the scheduler's configuration.
func (c ControlPlane) SchedulerFile() string { return filepath.Join(c.Dir, "scheduler.yaml") }

// StagesFile is the path of the stages that kwok plays.
func (c ControlPlane) StagesFile() string { return filepath.Join(c.Dir, "stages.yaml") }

// Stages is the content of StagesFile.
//
//go:embed stages.yaml
var Stages string

// EtcdArgs are etcd's flags. Both of its ports speak TLS and want a client
// certificate: whoever writes to etcd owns the cluster.
func (c ControlPlane) EtcdArgs() []string {
	client := "https://127.0.0.1:" + strconv.Itoa(c.Ports.Etcd)
	peer := "https://127.0.0.1:" + strconv.Itoa(c.Ports.EtcdPeer)
	args := []string{
		"--name=slipway",
		"--data-dir=" + filepath.Join(c.Dir, "etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=slipway=" + peer,
		"--client-cert-auth",
		"--peer-client-cert-auth",
		"--logger=zap",
		"--log-level=warn",
		"--quota-backend-bytes=4294967296",
	}
	for _, prefix := range []string{"--", "--peer-"} {
		args = append(args,
			prefix+"cert-file="+c.PKI("etcd.crt"),
			prefix+"key-file="+c.PKI("etcd.key"),
			prefix+"trusted-ca-file="+c.PKI("ca.crt"),
		)
	}
	if !c.Durable {
		args = append(args, "--unsafe-no-fsync")
	}
	return args
}

// APIServerArgs are kube-apiserver's flags.
func (c ControlPlane) APIServerArgs() []string {
	args := []string{
		"--bind-address=" + c.Listen,
		"--advertise-address=" + c.Listen,
		"--secure-port=" + strconv.Itoa(c.Ports.APIServer),
		"--tls-cert-file=" + c.PKI("apiserver.crt"),
		"--tls-private-key-file=" + c.PKI("apiserver.key"),
		"--client-ca-file=" + c.PKI("ca.crt"),
		"--etcd-servers=https://127.0.0.1:" + strconv.Itoa(c.Ports.Etcd),
		"--etcd-cafile=" + c.PKI("ca.crt"),
		"--etcd-certfile=" + c.PKI("etcd-client.crt"),
		"--etcd-keyfile=" + c.PKI("etcd-client.key"),
		"--service-cluster-ip-range=" + ServiceRange,
		"--service-account-issuer=https://kubernetes.default.svc." + ClusterDomain,
		"--service-account-key-file=" + c.PKI("service-account.pub"),
		"--service-account-signing-key-file=" + c.PKI("service-account.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--requestheader-client-ca-file=" + c.PKI("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.PKI("front-proxy-client.crt"),
		"--proxy-client-key-file=" + c.PKI("front-proxy-client.key"),
		// Webhooks and aggregated APIs are called at their pods: the API server
		// has routes to them, but no kube-proxy beside it.
		"--enable-aggregator-routing=true",
		"--profiling=false",
		"--shutdown-delay-duration=0s",
	}
	if !c.ServiceAccounts {
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if c.QuickEviction {
		args = append(args, "--default-not-ready-toleration-seconds=30", "--default-unreachable-toleration-seconds=30")
	}
	if c.NodeAccess {
		args = append(args,
			"--kubelet-client-certificate="+c.PKI("kubelet-client.crt"),
			"--kubelet-client-key="+c.PKI("kubelet-client.key"),
			"--kubelet-certificate-authority="+c.PKI("ca.crt"),
			"--kubelet-preferred-address-types=InternalIP",
		)
	}
	return args
}

// ControllerManagerArgs are kube-controller-manager's flags.
func (c ControlPlane) ControllerManagerArgs() []string {
	args := []string{
		"--kubeconfig=" + c.Kubeconfig(ControllerManager),
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.Ports.ControllerManager),
		"--tls-cert-file=" + c.PKI("components.crt"),
		"--tls-private-key-file=" + c.PKI("components.key"),
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.PKI("service-account.key"),
		"--root-ca-file=" + c.PKI("ca.crt"),
		"--cluster-signing-cert-file=" + c.PKI("ca.crt"),
		"--cluster-signing-key-file=" + c.PKI("ca.key"),
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--concurrent-deployment-syncs=20",
		"--concurrent-replicaset-syncs=20",
		"--concurrent-gc-syncs=20",
		"--concurrent-service-endpoint-syncs=20",
		"--profiling=false",
	}
	if c.QuickEviction {
		args = append(args, "--node-monitor-grace-period=24s")
	}
	return args
}

// SchedulerArgs are kube-scheduler's flags; the rest is in SchedulerConfig.
func (c ControlPlane) SchedulerArgs() []string {
	return []string{
		"--config=" + c.SchedulerFile(),
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.Ports.Scheduler),
		"--tls-cert-file=" + c.PKI("components.crt"),
		"--tls-private-key-file=" + c.PKI("components.key"),
	}
}

// SchedulerConfig is the content of SchedulerFile.
func (c ControlPlane) SchedulerConfig() string {
	return strings.Join([]string{
		"apiVersion: kubescheduler.config.k8s.io/v1",
		"kind: KubeSchedulerConfiguration",
		"leaderElection:",
		"  leaderElect: false",
		"clientConnection:",
		fmt.Sprintf("  kubeconfig: %q", c.Kubeconfig(Scheduler)),
		"  qps: 1000",
		"  burst: 2000",
		"",
	}, "\n")
}

// SimulatedNode is the annotation, with its value, of the nodes that kwok plays.
const (
	SimulatedNodeKey   = "kwok.x-k8s.io/node"
	SimulatedNodeValue = "fake"
)

// KwokArgs are kwok's flags. It plays the nodes with the annotation
// SimulatedNodeKey, and keeps off real ones.
func (c ControlPlane) KwokArgs() []string {
	return []string{
		"--kubeconfig=" + c.Kubeconfig(Kwok),
		"--manage-all-nodes=false",
		"--manage-nodes-with-annotation-selector=" + SimulatedNodeKey + "=" + SimulatedNodeValue,
		"--cidr=10.245.0.0/16",
		"--node-ip=10.245.0.1",
		"--node-port=" + strconv.Itoa(c.Ports.Kwok),
		"--server-address=127.0.0.1:" + strconv.Itoa(c.Ports.Kwok),
		"--node-lease-duration-seconds=40",
		"--config=" + c.StagesFile(),
	}
}
