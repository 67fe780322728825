// Package arch holds the rules of Slipway's rooms: who may import whom, and how
// long a function and a file may be. Its tests read the real import graph and
// the real source. It never builds or runs what it reads.
//
// A new room is entered in rooms below and explained in an ADR.
package arch

import (
	"slices"
	"strings"
)

const module = "github.com/slipway-dev/slipway"

// level is where a room stands: it imports rooms of its own level and below.
type level int

const (
	types level = iota
	pure
	engine
	edge
	wiring
	commandLine
	program
)

// String names the level in a breach.
func (l level) String() string {
	return [...]string{"api", "pure room", "engine", "edge", "manager", "command line", "program"}[l]
}

// rooms gives each room, by its path in the module, its level. A room holds the
// packages below its path; of two that match, the longer path counts.
var rooms = map[string]level{
	"api": types,

	"internal/version":     pure,
	"internal/object":      pure,
	"internal/render":      pure,
	"internal/readiness":   pure,
	"internal/condition":   pure,
	"internal/diagnosis":   pure,
	"internal/wave":        pure,
	"internal/release":     pure,
	"internal/olm":         pure,
	"internal/chart":       pure,
	"internal/certificate": pure,
	"internal/scale":       pure,
	"internal/pick":        pure,
	"internal/openai":      pure,
	"internal/latency":     pure,

	"internal/apply":     engine,
	"internal/helm":      engine,
	"internal/registry":  engine,
	"internal/scrape":    engine,
	"internal/cluster":   engine,
	"internal/image":     engine,
	"internal/ollama":    engine,
	"internal/reconcile": engine,
	"internal/install":   engine,
	"helm-charts":        engine,
	"platform":           engine,
	"config":             engine,

	"internal/controller": edge,
	"internal/router":     edge,
	"internal/simulator":  edge,

	"internal/manager": wiring,
	"internal/cli":     commandLine,
	"cmd":              program,
	"internal/tools":   program,
	"test":             program,
}

// withoutKubernetes are the rooms that know no Kubernetes, so that they run,
// start and are tested anywhere.
var withoutKubernetes = []string{
	"internal/router", "internal/simulator", "internal/pick", "internal/openai", "internal/latency", "internal/ollama",
}

// kubernetes are the import path prefixes of Kubernetes and of what is built on it.
var kubernetes = []string{"k8s.io/", "sigs.k8s.io/", "helm.sh/", "github.com/fluxcd/"}

// effects are imports that a pure room must do without: clients, network, file
// system, processes, loggers and randomness that can't be seeded. net/http isn't
// among them, for the sake of its constants; source.go sees to the rest of it.
var effects = []string{
	"net", "net/http/httputil", "net/rpc", "net/smtp", "crypto/tls", "crypto/rand", "math/rand",
	"os", "os/exec", "os/signal", "os/user", "io/ioutil", "path/filepath", "syscall", "plugin", "database/sql",
	"log", "log/slog", "log/syslog", "expvar",
	"k8s.io/client-go", "k8s.io/klog", "sigs.k8s.io/controller-runtime", "helm.sh/helm",
	"github.com/go-logr", "go.uber.org/zap", "github.com/google/go-containerregistry/pkg/v1/remote",
	"google.golang.org/grpc", "github.com/openai",
}

// junk are names that say nothing about what is in a package.
var junk = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base"}

// path is a package's path in the module; outside says that it isn't in it.
func path(pkg string) (inModule string, outside bool) {
	if pkg == module {
		return "", false
	}
	inModule, found := strings.CutPrefix(pkg, module+"/")
	return inModule, !found
}

// under says whether a path is prefix or below it.
func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// room is the room that a package of the module is in.
func room(pkg string) (name string, found bool) {
	inModule, outside := path(pkg)
	if outside {
		return "", false
	}
	for candidate := range rooms {
		if under(inModule, candidate) && len(candidate) > len(name) {
			name, found = candidate, true
		}
	}
	return name, found
}

// isEffect says whether a pure room may not import pkg. Versions of a module
// (k8s.io/klog/v2) and its packages count with it; for the standard library,
// whose packages aren't below each other in meaning, only exact names count.
func isEffect(pkg string) bool {
	return slices.ContainsFunc(effects, func(effect string) bool {
		if strings.Contains(strings.Split(effect, "/")[0], ".") {
			return under(pkg, effect)
		}
		return pkg == effect
	})
}
