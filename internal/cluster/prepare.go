package cluster

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/slipway-dev/slipway/internal/cluster/config"
	"github.com/slipway-dev/slipway/internal/cluster/pki"
)

// adminName is the user of the kubeconfig that people get.
const adminName = "admin"

// prepare writes the keys, certificates, kubeconfigs and configuration files of
// a control plane into its folder, and returns the administrator's kubeconfig.
// What must outlive a restart (the authorities and the key that signs service
// account tokens) is kept if it is there; the rest is made anew. hosts are the
// names and addresses at which the API server is reached, the first one being
// the administrator's.
func prepare(s config.ControlPlane, hosts []string, cluster string) ([]byte, error) {
	if err := os.MkdirAll(s.PKI(""), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for keys: %w", err)
	}
	now := time.Now()
	authority, err := keepAuthority(s, "ca", now)
	if err != nil {
		return nil, err
	}
	frontProxy, err := keepAuthority(s, "front-proxy-ca", now)
	if err != nil {
		return nil, err
	}
	if err := keepServiceAccountKey(s); err != nil {
		return nil, err
	}
	names := append([]string{s.Listen, config.ServiceFirst, "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc." + config.ClusterDomain}, hosts...)
	loopback := []string{"127.0.0.1", "localhost"}
	for file, subject := range map[string]pki.Subject{
		"etcd":           {Name: "etcd", Hosts: loopback},
		"etcd-client":    {Name: "kube-apiserver"},
		"apiserver":      {Name: "kube-apiserver", Hosts: names},
		"components":     {Name: "components", Hosts: loopback},
		"kubelet-client": {Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
	} {
		if err := issue(s, authority, file, subject, now); err != nil {
			return nil, err
		}
	}
	if err := issue(s, frontProxy, "front-proxy-client", pki.Subject{Name: "front-proxy-client"}, now); err != nil {
		return nil, err
	}
	if err := writeFile(s.SchedulerFile(), []byte(s.SchedulerConfig())); err != nil {
		return nil, err
	}
	if err := writeFile(s.StagesFile(), []byte(config.Stages)); err != nil {
		return nil, err
	}
	server := fmt.Sprintf("https://%s:%d", s.Listen, s.Ports.APIServer)
	for file, subject := range map[string]pki.Subject{
		config.ControllerManager: {Name: "system:kube-controller-manager"},
		config.Scheduler:         {Name: "system:kube-scheduler"},
		config.Kwok:              {Name: "slipway:simulated-nodes", Groups: []string{"system:masters"}},
		adminName:                {Name: adminName, Groups: []string{"system:masters"}},
	} {
		if _, err := writeKubeconfig(s, authority, file, subject, server, cluster); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(s.Kubeconfig(adminName))
}

// writeKubeconfig makes a user's certificate and the kubeconfig that holds it.
func writeKubeconfig(s config.ControlPlane, authority *pki.Authority, file string, subject pki.Subject, server, cluster string) ([]byte, error) {
	pair, err := authority.Issue(subject, time.Now())
	if err != nil {
		return nil, err
	}
	data, err := config.Kubeconfig(config.Access{
		Cluster: cluster, Server: server, User: cluster + "-" + file,
		CA: authority.Certificate, Certificate: pair.Certificate, Key: pair.Key,
	})
	if err != nil {
		return nil, err
	}
	return data, writeFile(s.Kubeconfig(file), data)
}

func issue(s config.ControlPlane, authority *pki.Authority, file string, subject pki.Subject, now time.Time) error {
	pair, err := authority.Issue(subject, now)
	if err != nil {
		return err
	}
	return writePair(s.PKI(file), pair)
}

func writePair(path string, pair pki.Pair) error {
	if err := writeFile(path+".key", pair.Key); err != nil {
		return err
	}
	return writeFile(path+".crt", pair.Certificate)
}

func keepAuthority(s config.ControlPlane, name string, now time.Time) (*pki.Authority, error) {
	certificate, err := os.ReadFile(s.PKI(name + ".crt"))
	if err == nil {
		key, err := os.ReadFile(s.PKI(name + ".key"))
		if err != nil {
			return nil, fmt.Errorf("read the key of an authority: %w", err)
		}
		return pki.LoadAuthority(pki.Pair{Certificate: certificate, Key: key})
	}
	authority, err := pki.NewAuthority("slipway-"+name, now)
	if err != nil {
		return nil, err
	}
	return authority, writePair(s.PKI(name), authority.Pair)
}

func keepServiceAccountKey(s config.ControlPlane) error {
	if _, err := os.Stat(s.PKI("service-account.pub")); err == nil {
		return nil
	}
	private, public, err := pki.NewKey()
	if err != nil {
		return err
	}
	if err := writeFile(s.PKI("service-account.key"), private); err != nil {
		return err
	}
	return writeFile(s.PKI("service-account.pub"), public)
}

// writeFile replaces a file at once, readable by its owner alone.
func writeFile(path string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(temporary.Name())
	if _, err := temporary.Write(data); err != nil {
		temporary.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := temporary.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// freePorts finds ports of 127.0.0.1 that nobody listens on. They are held
// together, so that they differ.
func freePorts() (config.Ports, error) {
	var ports config.Ports
	for _, port := range []*int{&ports.Etcd, &ports.EtcdPeer, &ports.APIServer, &ports.ControllerManager, &ports.Scheduler, &ports.Kwok} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports, fmt.Errorf("find a free port of 127.0.0.1: %w", err)
		}
		defer listener.Close()
		*port = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
