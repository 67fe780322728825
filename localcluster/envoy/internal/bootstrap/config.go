package bootstrap

import (
	"regexp"
	"time"
)

// Config is a bootstrap in the stand-in's own words: checked, with Envoy's
// defaults filled in. It is never changed after Read.
type Config struct {
	// NodeID and NodeCluster name this proxy; flags override them.
	NodeID, NodeCluster string
	// Admin is the address of the administration interface; empty means none.
	Admin string
	// MaxConnections bounds the downstream connections of all listeners.
	MaxConnections int
	Listeners      []Listener
	Clusters       []Cluster
	// JSON is the whole bootstrap, for the administration interface.
	JSON []byte
}

// Listener is one TCP address with an HTTP connection manager behind it.
type Listener struct {
	Name, Address string
	HTTP          HTTP
}

// Codec says which versions of HTTP a listener speaks.
type Codec int

// The codecs: Auto tells HTTP/1 from HTTP/2 by the connection's first bytes.
const (
	Auto Codec = iota
	HTTP1
	HTTP2
)

// HTTP is an HTTP connection manager.
type HTTP struct {
	StatPrefix string
	Codec      Codec
	ServerName string
	// AccessLogs are the files that each request writes a line to: /dev/stdout or
	// /dev/stderr.
	AccessLogs   []string
	VirtualHosts []VirtualHost
	// Processor is the ext_proc filter, nil if there is none.
	Processor *Processor
	// HealthCheck is the health_check filter, nil if there is none.
	HealthCheck *HealthCheckFilter
	// UseRemoteAddress makes the proxy an edge: it trusts no x-forwarded-for.
	UseRemoteAddress, GenerateRequestID, PreserveRequestID bool
	// RequestTimeout bounds the time until a request has been received whole;
	// zero is no bound. StreamIdleTimeout bounds the time without any byte.
	RequestTimeout, StreamIdleTimeout, ConnectionIdleTimeout time.Duration
	// MaxConnectionDuration is the age from which a connection is closed after its
	// next response; zero is no bound.
	MaxConnectionDuration time.Duration
	MaxHeaderBytes        int
	MaxConcurrentStreams  int
}

// VirtualHost is a set of domains and their routes, in the order of preference.
type VirtualHost struct {
	Name    string
	Domains []string
	Routes  []Route
}

// Route is what is done with the requests that it matches.
type Route struct {
	Match Match
	// Direct answers without an upstream, if not nil; else Cluster is the upstream.
	Direct  *DirectResponse
	Cluster string
	// Timeout bounds the time from the end of the request to the end of the
	// response; zero is no bound.
	Timeout time.Duration
	// IdleTimeout overrides the connection manager's StreamIdleTimeout, if not nil.
	IdleTimeout *time.Duration
	Retry       Retry
	// Remove are headers that the upstream doesn't get.
	Remove []string
}

// Match is a route's condition. Exactly one of Prefix, Path and Regex counts.
type Match struct {
	Prefix, Path string
	Exact        bool
	Regex        *regexp.Regexp
	Headers      []HeaderMatch
}

// HeaderMatch is a condition on one header.
type HeaderMatch struct {
	Name string
	// Value is nil if the header only has to be there.
	Value   func(string) bool
	Present bool
	Invert  bool
}

// DirectResponse is an answer without an upstream.
type DirectResponse struct {
	Status int
	Body   string
}

// Retry is a route's retry policy.
type Retry struct {
	// On are Envoy's names of the conditions; empty means no retries.
	On            []string
	Max           int
	PerTryTimeout time.Duration
	StatusCodes   []int
}

// BodyMode says how the processor sees a body.
type BodyMode int

// The body modes that the stand-in knows: not at all, or streamed both ways at
// once.
const (
	None BodyMode = iota
	FullDuplex
)

// Processor is the ext_proc filter.
type Processor struct {
	Cluster, Authority string
	// MessageTimeout bounds the answer to headers whose body mode is None. Envoy
	// has no bound on an answer in FULL_DUPLEX_STREAMED.
	MessageTimeout time.Duration
	Request        Processing
	Response       Processing
}

// Processing says what of a request or of a response goes to the processor.
type Processing struct {
	Headers, Trailers bool
	Body              BodyMode
}

// HealthCheckFilter answers requests for a path from the proxy's own state.
type HealthCheckFilter struct {
	Headers []HeaderMatch
}

// Discovery says how a cluster learns its hosts.
type Discovery int

// The kinds of discovery that the stand-in knows.
const (
	Static Discovery = iota
	StrictDNS
	LogicalDNS
	OriginalDst
)

// Policy says how a host is chosen.
type Policy int

// The load balancing policies that the stand-in knows.
const (
	RoundRobin Policy = iota
	LeastRequest
	Random
	ClusterProvided
)

// Family says which addresses of a name are taken.
type Family int

// The families of addresses. Auto takes IPv6 where there is any.
const (
	FamilyAuto Family = iota
	FamilyV4Only
	FamilyV6Only
	FamilyV4Preferred
	FamilyAll
)

// Cluster is an upstream.
type Cluster struct {
	Name           string
	Discovery      Discovery
	Policy         Policy
	Family         Family
	Hosts          []Host
	ConnectTimeout time.Duration
	DNSRefresh     time.Duration
	// Header names the header that carries the address, for OriginalDst.
	Header string
	HTTP2  bool
	TLS    *TLS
	// OneRequest closes each connection after its first request.
	OneRequest bool
	// IdleTimeout is how long an unused connection is kept.
	IdleTimeout time.Duration
	// MaxConnections, MaxPending, MaxRequests and MaxRetries are the circuit
	// breakers.
	MaxConnections, MaxPending, MaxRequests, MaxRetries int
	HealthCheck                                         *HealthCheck
}

// Host is a name or an address with a port.
type Host struct {
	Address string
	Port    int
}

// TLS is an upstream's transport security. The peer isn't verified.
type TLS struct {
	ServerName string
	ALPN       []string
}

// HealthCheck asks each host over HTTP whether it is well.
type HealthCheck struct {
	Path, Host         string
	Timeout, Interval  time.Duration
	Unhealthy, Healthy int
}
