package config_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/cluster/config"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); go test -update rewrites it:\n%s", path, diff)
	}
}

func TestControlPlane(t *testing.T) {
	ports := config.Ports{Etcd: 1, EtcdPeer: 2, APIServer: 3, ControllerManager: 4, Scheduler: 5, Kwok: 6}
	for name, c := range map[string]config.ControlPlane{
		"test":  {Dir: "/d", Listen: "127.0.0.1", Ports: ports},
		"local": {Dir: "/d", Listen: config.Gateway, Ports: ports, Durable: true, ServiceAccounts: true, QuickEviction: true, NodeAccess: true},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for _, program := range []struct {
				name string
				args []string
			}{
				{config.Etcd, c.EtcdArgs()},
				{config.APIServer, c.APIServerArgs()},
				{config.ControllerManager, c.ControllerManagerArgs()},
				{config.Scheduler, c.SchedulerArgs()},
				{config.Kwok, c.KwokArgs()},
			} {
				fmt.Fprintf(&text, "%s\n  %s\n", program.name, strings.Join(program.args, "\n  "))
			}
			text.WriteString(c.SchedulerConfig())
			golden(t, "control-plane-"+name+".txt", text.String())
		})
	}
}

func TestNode(t *testing.T) {
	n := config.Node{
		Index: 2, Programs: "programs-0", Runc: "/usr/sbin/runc", CgroupRoot: "/slipway-a/node-2",
		Snapshotter: "overlayfs", RestrictOOM: true, CPUs: 8,
	}
	files, err := n.Files()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&text, "--- %s\n%s", name, files[name])
	}
	for _, command := range n.Commands() {
		fmt.Fprintf(&text, "--- %s %v\n  %s\n", command.Path, command.Env, strings.Join(command.Args, "\n  "))
	}
	golden(t, "node.txt", text.String())
}

// TestNodesDontClash holds that no two nodes share a name, an address or a
// range of pods, and that none takes the gateway's.
func TestNodesDontClash(t *testing.T) {
	seen := map[string]int{config.Gateway: 0}
	for i := 1; i <= config.MaxNodes; i++ {
		n := config.Node{Index: i}
		for _, value := range []string{n.Name(), n.Address(), n.PodRange()} {
			if other, taken := seen[value]; taken {
				t.Errorf("nodes %d and %d both have %s", other, i, value)
			}
			seen[value] = i
		}
	}
}

func TestKubeconfigIsComplete(t *testing.T) {
	data, err := config.Kubeconfig(config.Access{
		Cluster: "c", Server: "https://127.0.0.1:1", User: "u",
		CA: []byte("ca"), Certificate: []byte("certificate"), Key: []byte("key"),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != "https://127.0.0.1:1" || string(got.CAData) != "ca" || string(got.CertData) != "certificate" || string(got.KeyData) != "key" {
		t.Errorf("the kubeconfig gives %v", got)
	}
}

// TestBaseIsValid holds that each object parses and that they agree with the
// constants that the rest of the program uses.
func TestBaseIsValid(t *testing.T) {
	for document := range strings.SplitSeq(config.Base+"\n---\n"+config.Stages, "\n---\n") {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Errorf("%v in\n%s", err, document)
		}
		if object["kind"] == nil || object["apiVersion"] == nil {
			t.Errorf("no object:\n%s", document)
		}
	}
	for _, constant := range []string{config.CoreDNSImage, config.DNSAddress, config.Provisioner, config.ClusterDomain} {
		if !strings.Contains(config.Base, constant) {
			t.Errorf("the base objects don't mention %s", constant)
		}
	}
}
