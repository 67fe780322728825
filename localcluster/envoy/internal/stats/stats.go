// Package stats counts what the proxy does, under Envoy's names, and writes the
// counts as Envoy's administration interface does. It never decides anything.
package stats

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Value is one counter or gauge. Its zero value is ready.
type Value struct{ n atomic.Int64 }

// Add adds n, which is negative when a gauge falls.
func (v *Value) Add(n int64) { v.n.Add(n) }

// Inc adds one.
func (v *Value) Inc() { v.n.Add(1) }

// Set replaces a gauge's value.
func (v *Value) Set(n int64) { v.n.Store(n) }

// Load is the present value.
func (v *Value) Load() int64 { return v.n.Load() }

// metric is a value with both of its names.
type metric struct {
	value Value
	gauge bool
	// family and labels are the name that Prometheus knows.
	family, labels string
}

// Store holds all values by their name in Envoy's text form. Its zero value is
// ready. It is safe for concurrent use.
type Store struct {
	mutex   sync.RWMutex
	metrics map[string]*metric
}

// Scope is a family of values that belong to one thing, such as one cluster.
type Scope struct {
	store  *Store
	prefix string
	// family and label are how Prometheus sees the prefix.
	family, label string
	codes         [6]atomic.Pointer[Value]
	exact         sync.Map
	codesName     string
}

// HTTP is the scope of a connection manager: http.PREFIX.*.
func (s *Store) HTTP(prefix string) *Scope {
	return &Scope{store: s, prefix: "http." + prefix, family: "envoy_http", codesName: "downstream_rq",
		label: fmt.Sprintf("envoy_http_conn_manager_prefix=%q", prefix)}
}

// Cluster is the scope of a cluster: cluster.NAME.*.
func (s *Store) Cluster(name string) *Scope {
	return &Scope{store: s, prefix: "cluster." + name, family: "envoy_cluster", codesName: "upstream_rq",
		label: fmt.Sprintf("envoy_cluster_name=%q", name)}
}

// Listener is the scope of a listener: listener.ADDRESS.*.
func (s *Store) Listener(address string) *Scope {
	return &Scope{store: s, prefix: "listener." + strings.ReplaceAll(address, ":", "_"), family: "envoy_listener", codesName: "downstream_rq",
		label: fmt.Sprintf("envoy_listener_address=%q", strings.ReplaceAll(address, ":", "_"))}
}

// Server is the scope of the process: server.*.
func (s *Store) Server() *Scope {
	return &Scope{store: s, prefix: "server", family: "envoy_server", codesName: "rq"}
}

// Counter is the value called name, made at its first use.
func (s *Scope) Counter(name string) *Value { return s.value(name, false) }

// Gauge is the same for a value that may fall.
func (s *Scope) Gauge(name string) *Value { return s.value(name, true) }

func (s *Scope) value(name string, gauge bool) *Value {
	family := s.family + "_" + strings.NewReplacer(".", "_", "-", "_").Replace(name)
	return s.store.get(s.prefix+"."+name, family, s.label, gauge)
}

// Code counts an answer by its status code: the class, and for a cluster the
// code itself.
func (s *Scope) Code(code int) {
	class := code / 100
	if class < 1 || class > 5 {
		return
	}
	value := s.codes[class].Load()
	if value == nil {
		digit := strconv.Itoa(class)
		value = s.store.get(s.prefix+"."+s.codesName+"_"+digit+"xx", s.family+"_"+s.codesName+"_xx",
			fmt.Sprintf("envoy_response_code_class=%q,", digit)+s.label, false)
		s.codes[class].Store(value)
	}
	value.Inc()
	if s.family != "envoy_cluster" {
		return
	}
	exact, found := s.exact.Load(code)
	if !found {
		exact, _ = s.exact.LoadOrStore(code, s.store.get(s.prefix+"."+s.codesName+"_"+strconv.Itoa(code), s.family+"_"+s.codesName,
			fmt.Sprintf("envoy_response_code=\"%d\",", code)+s.label, false))
	}
	exact.(*Value).Inc() //nolint:forcetypeassert // nothing else is ever stored there
}

func (s *Store) get(name, family, labels string, gauge bool) *Value {
	s.mutex.RLock()
	found := s.metrics[name]
	s.mutex.RUnlock()
	if found != nil {
		return &found.value
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if found := s.metrics[name]; found != nil {
		return &found.value
	}
	if s.metrics == nil {
		s.metrics = map[string]*metric{}
	}
	made := &metric{gauge: gauge, family: family, labels: labels}
	s.metrics[name] = made
	return &made.value
}

// WriteText writes "NAME: VALUE" lines, sorted, of the names that keep accepts.
func (s *Store) WriteText(w io.Writer, keep func(name string) bool) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(s.metrics)) {
		if keep == nil || keep(name) {
			fmt.Fprintf(w, "%s: %d\n", name, s.metrics[name].value.Load())
		}
	}
}

// WritePrometheus writes the same in the text format of Prometheus.
func (s *Store) WritePrometheus(w io.Writer) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	families := map[string][]*metric{}
	for _, name := range slices.Sorted(maps.Keys(s.metrics)) {
		one := s.metrics[name]
		families[one.family] = append(families[one.family], one)
	}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		kind := "counter"
		if families[family][0].gauge {
			kind = "gauge"
		}
		fmt.Fprintf(w, "# TYPE %s %s\n", family, kind)
		for _, one := range families[family] {
			fmt.Fprintf(w, "%s{%s} %d\n", family, one.labels, one.value.Load())
		}
	}
}
