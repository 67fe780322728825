package component

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Group names the programs that one nested module under localcluster/ builds.
// They are separate modules because their requirements exclude each other.
type Group string

// The groups, each named as its folder.
const (
	Etcd       Group = "etcd"
	Kubernetes Group = "kubernetes"
	Kwok       Group = "kwok"
	Containerd Group = "containerd"
	CNI        Group = "cni"
	CoreDNS    Group = "coredns"
	Pause      Group = "pause"
	// What routes requests to inference engines; nothing of Kubernetes.
	Picker         Group = "picker"
	RoutingSidecar Group = "routing-sidecar"
	Envoy          Group = "envoy"
	// A real inference server for tests; it needs a C and a C++ compiler.
	Ollama Group = "ollama"
)

// ControlPlane are the groups of a control plane with simulated nodes; Node
// are those that a real node needs beyond it. LLMD are those of the images that
// llm-d's manifests name; no cluster needs them to start.
var (
	ControlPlane = []Group{Etcd, Kubernetes, Kwok}
	Node         = []Group{Containerd, CNI, CoreDNS, Pause}
	LLMD         = []Group{Picker, RoutingSidecar, Envoy}
)

// module is what to build in one nested module.
type module struct {
	// programs maps a program's name to its main package.
	programs map[string]string
	// ldflags are added to the linker's flags.
	ldflags []string
	// tags are build tags.
	tags []string
	// cgo says that the module holds C or C++. It is linked statically all the
	// same, glibc and libstdc++ included.
	cgo bool
}

var modules = map[Group]module{
	Etcd: {programs: map[string]string{"etcd": "go.etcd.io/etcd/server/v3"}},
	Kubernetes: {
		programs: map[string]string{
			"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
			"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
			"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
			"kube-proxy":              "k8s.io/kubernetes/cmd/kube-proxy",
			"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
			"kubelet":                 "./kubelet",
		},
		ldflags: kubernetesVersionFlags(KubernetesVersion),
	},
	Kwok: {programs: map[string]string{"kwok": "sigs.k8s.io/kwok/cmd/kwok"}},
	Containerd: {programs: map[string]string{
		"containerd":              "github.com/containerd/containerd/v2/cmd/containerd",
		"containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
		"ctr":                     "github.com/containerd/containerd/v2/cmd/ctr",
	}},
	CNI: {programs: map[string]string{
		"ptp":        "github.com/containernetworking/plugins/plugins/main/ptp",
		"loopback":   "github.com/containernetworking/plugins/plugins/main/loopback",
		"host-local": "github.com/containernetworking/plugins/plugins/ipam/host-local",
		"portmap":    "github.com/containernetworking/plugins/plugins/meta/portmap",
	}},
	CoreDNS: {programs: map[string]string{"coredns": "github.com/coredns/coredns"}},
	Pause:   {programs: map[string]string{"pause": "github.com/slipway-dev/slipway/localcluster/pause"}},
	Picker:  {programs: map[string]string{"epp": "github.com/slipway-dev/slipway/localcluster/picker"}},
	RoutingSidecar: {programs: map[string]string{
		"pd-sidecar": "github.com/llm-d/llm-d-inference-scheduler/cmd/pd-sidecar",
	}},
	Envoy: {programs: map[string]string{"envoy": "github.com/slipway-dev/slipway/localcluster/envoy"}},
	Ollama: {
		programs: map[string]string{"ollama": "github.com/ollama/ollama"},
		ldflags:  []string{"-X", "github.com/ollama/ollama/version.Version=" + OllamaVersion},
		// Go's own resolver and user lookup: a static glibc has none of either.
		tags: []string{"netgo", "osusergo"},
		cgo:  true,
	},
}

// kubernetesVersionFlags set the version that Kubernetes programs report.
// Without them it is v0.0.0-master, which fails a chart's kubeVersion check.
func kubernetesVersionFlags(version string) []string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X", pkg+".gitVersion="+version,
			"-X", pkg+".gitMajor="+parts[0],
			"-X", pkg+".gitMinor="+parts[1],
			"-X", pkg+".gitTreeState=clean",
		)
	}
	return flags
}

// packages are the main packages in a fixed order.
func (m module) packages() []string {
	return slices.Sorted(maps.Values(m.programs))
}

// goName is the name that the go command gives the program of a main package:
// the last element of its path that is not a major version.
func goName(pkg string) string {
	base := path.Base(pkg)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return path.Base(path.Dir(pkg))
	}
	return base
}

// key names a build by everything that its result depends on: the module's
// files but for its tests, the Go version, the platform, and what is built with
// which flags.
func (m module) key(dir, goVersion, platform string) (string, error) {
	var failed error
	sum := digest(func(w io.Writer) {
		fmt.Fprintln(w, goVersion, platform, buildFlags(m))
		for _, program := range slices.Sorted(maps.Keys(m.programs)) {
			fmt.Fprintln(w, program, m.programs[program])
		}
		failed = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && entry.Name() == "testdata" {
				return fs.SkipDir
			}
			if err != nil || !entry.Type().IsRegular() || strings.HasSuffix(file, "_test.go") {
				return err
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(dir, file)
			fmt.Fprintln(w, filepath.ToSlash(relative), len(data))
			_, _ = w.Write(data)
			return err
		})
	})
	return sum, failed
}

// digest is a short hash of what write writes.
func digest(write func(io.Writer)) string {
	h := sha256.New()
	write(h)
	return hex.EncodeToString(h.Sum(nil))[:16]
}
