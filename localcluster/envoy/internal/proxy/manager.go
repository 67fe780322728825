// Package proxy is the listeners and what Envoy calls the HTTP connection
// manager: it routes each request through the filters to a cluster and streams
// both bodies, holding no more of them than a window.
package proxy

import (
	"net/http"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/cluster"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/extproc"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/stats"
)

// manager handles the requests of one listener.
type manager struct {
	config    *bootstrap.HTTP
	clusters  map[string]*cluster.Cluster
	processor *extproc.Filter
	logs      []*AccessLog
	scope     *stats.Scope
	// failing tells whether the administrator had health checks fail.
	failing func() bool

	requests, active, resets, timeouts *stats.Value
}

func newManager(config *bootstrap.HTTP, clusters map[string]*cluster.Cluster, logs []*AccessLog, store *stats.Store, failing func() bool) (*manager, error) {
	scope := store.HTTP(config.StatPrefix)
	m := &manager{
		config: config, clusters: clusters, logs: logs, scope: scope, failing: failing,
		requests: scope.Counter("downstream_rq_total"), active: scope.Gauge("downstream_rq_active"),
		resets: scope.Counter("downstream_rq_rx_reset"), timeouts: scope.Counter("downstream_rq_idle_timeout"),
	}
	if config.Processor == nil {
		return m, nil
	}
	processor, err := extproc.New(*config.Processor, clusters[config.Processor.Cluster], scope)
	m.processor = processor
	return m, err
}

// ServeHTTP takes a request through the filters and answers it.
func (m *manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.requests.Inc()
	m.active.Add(1)
	x := m.begin(w, r)
	x.serve()
	x.end()
	m.active.Add(-1)
	m.scope.Code(x.status)
	if len(m.logs) > 0 {
		line := x.line(make([]byte, 0, 256), time.Now())
		for _, log := range m.logs {
			log.write(line)
		}
	}
	if x.abort {
		panic(http.ErrAbortHandler)
	}
}
