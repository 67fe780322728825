// Package admin is the administration interface: the part of Envoy's that tells
// how the proxy does, and that ends it. As with Envoy, what changes something
// takes POST only.
package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/cluster"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/stats"
)

// Proxy is what the interface tells of and acts on.
type Proxy interface {
	Warm() bool
	Ready() bool
	Draining() bool
	FailHealthChecks(fail bool)
	Discourage()
	Drain()
	Clusters() []*cluster.Cluster
}

// Interface is the administration interface of one proxy.
type Interface struct {
	Proxy  Proxy
	Config *bootstrap.Config
	Stats  *stats.Store
	// Version is what /server_info says that this is.
	Version string
	// DrainTime is how long a graceful drain lets new connections in.
	DrainTime time.Duration
	// Quit ends the process.
	Quit func()

	begin   time.Time
	drain   sync.Once
	running *stats.Value
}

// Handler serves the interface.
func (i *Interface) Handler() http.Handler {
	i.begin = time.Now()
	i.running = i.Stats.Server().Gauge("uptime")
	i.Stats.Server().Gauge("live")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", i.ready)
	mux.HandleFunc("GET /server_info", i.serverInfo)
	mux.HandleFunc("GET /stats", i.stats)
	mux.HandleFunc("GET /stats/prometheus", i.prometheus)
	mux.HandleFunc("GET /clusters", i.clusters)
	mux.HandleFunc("GET /config_dump", i.configDump)
	mux.HandleFunc("POST /healthcheck/fail", i.act(func() { i.Proxy.FailHealthChecks(true) }))
	mux.HandleFunc("POST /healthcheck/ok", i.act(func() { i.Proxy.FailHealthChecks(false) }))
	mux.HandleFunc("POST /quitquitquit", i.act(i.Quit))
	mux.HandleFunc("POST /drain_listeners", i.drainListeners)
	return mux
}

func (i *Interface) state() string {
	switch {
	case !i.Proxy.Warm():
		return "PRE_INITIALIZING"
	case !i.Proxy.Ready():
		return "DRAINING"
	}
	return "LIVE"
}

func (i *Interface) ready(w http.ResponseWriter, _ *http.Request) {
	state := i.state()
	text(w)
	if state != "LIVE" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintln(w, state)
}

func text(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	w.Header().Set("Cache-Control", "no-cache, max-age=0")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Server", "envoy")
}

func (i *Interface) act(do func()) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text(w)
		fmt.Fprintln(w, "OK")
		// The answer goes out before the process ends.
		_ = http.NewResponseController(w).Flush()
		do()
	}
}

func (i *Interface) drainListeners(w http.ResponseWriter, r *http.Request) {
	graceful, skipExit := r.URL.Query().Has("graceful"), r.URL.Query().Has("skip_exit")
	if skipExit && !graceful {
		text(w)
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintln(w, "skip_exit requires graceful")
		return
	}
	i.act(func() {
		if !graceful {
			i.Proxy.Drain()
			return
		}
		i.drain.Do(func() {
			i.Proxy.Discourage()
			if !skipExit {
				time.AfterFunc(i.DrainTime, i.Proxy.Drain)
			}
		})
	})(w, r)
}

func (i *Interface) serverInfo(w http.ResponseWriter, _ *http.Request) {
	uptime := fmt.Sprintf("%ds", int(time.Since(i.begin).Seconds()))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Server", "envoy")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	_ = encoder.Encode(map[string]any{
		"version":                 i.Version,
		"state":                   i.state(),
		"hot_restart_version":     "disabled",
		"uptime_current_epoch":    uptime,
		"uptime_all_epochs":       uptime,
		"node":                    map[string]string{"id": i.Config.NodeID, "cluster": i.Config.NodeCluster},
		"command_line_options":    map[string]string{"service_node": i.Config.NodeID, "service_cluster": i.Config.NodeCluster},
		"draining_listeners":      i.Proxy.Draining(),
		"not_envoy_but_a_standin": true,
	})
}

// refresh brings what is only known when asked into the statistics.
func (i *Interface) refresh() {
	i.running.Set(int64(time.Since(i.begin).Seconds()))
	live := int64(0)
	if i.Proxy.Ready() {
		live = 1
	}
	i.Stats.Server().Gauge("live").Set(live)
}

func (i *Interface) stats(w http.ResponseWriter, r *http.Request) {
	i.refresh()
	query := r.URL.Query()
	if query.Get("format") == "prometheus" {
		i.prometheus(w, r)
		return
	}
	if format := query.Get("format"); format != "" && format != "text" {
		http.Error(w, "the stand-in writes format=text and format=prometheus only", http.StatusBadRequest)
		return
	}
	var keep func(string) bool
	if filter := query.Get("filter"); filter != "" {
		pattern, err := regexp.Compile(filter)
		if err != nil {
			http.Error(w, "Invalid re2 regex", http.StatusBadRequest)
			return
		}
		keep = pattern.MatchString
	}
	text(w)
	i.Stats.WriteText(w, keep)
}

func (i *Interface) prometheus(w http.ResponseWriter, _ *http.Request) {
	i.refresh()
	text(w)
	i.Stats.WritePrometheus(w)
}

func (i *Interface) configDump(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Server", "envoy")
	fmt.Fprintf(w, `{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.BootstrapConfigDump","bootstrap":%s}]}`+"\n", i.Config.JSON)
}

func (i *Interface) clusters(w http.ResponseWriter, _ *http.Request) {
	text(w)
	var out strings.Builder
	for _, one := range i.Proxy.Clusters() {
		writeCluster(&out, one)
	}
	_, _ = io.WriteString(w, out.String())
}

func writeCluster(out *strings.Builder, one *cluster.Cluster) {
	for _, limit := range []struct {
		name  string
		value int
	}{{"max_connections", one.MaxConnections}, {"max_pending_requests", one.MaxPending}, {"max_requests", one.MaxRequests}, {"max_retries", one.MaxRetries}} {
		fmt.Fprintf(out, "%s::default_priority::%s::%d\n", one.Name, limit.name, limit.value)
	}
	for _, host := range one.Hosts() {
		health := "healthy"
		if !host.Healthy() {
			health = "/failed_active_hc"
		}
		failed, total := host.Errors.Load(), host.Total.Load()
		fmt.Fprintf(out, "%[1]s::%[2]s::rq_active::%[3]d\n%[1]s::%[2]s::rq_error::%[4]d\n%[1]s::%[2]s::rq_success::%[5]d\n%[1]s::%[2]s::rq_total::%[6]d\n%[1]s::%[2]s::health_flags::%[7]s\n",
			one.Name, host.Address, host.Active.Load(), failed, max(total-failed, 0), total, health)
	}
}
