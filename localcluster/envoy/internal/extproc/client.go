// Package extproc is the client's side of Envoy's external processing: one gRPC
// stream for each request, on which headers go out and mutations come back, and
// bodies go both ways at once in FULL_DUPLEX_STREAMED. It knows nothing of routes
// or of the upstream that the request goes to.
package extproc

import (
	"context"
	"net"
	"time"

	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/cluster"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/stats"
)

const (
	// maxMessage bounds one message from the processor, in bytes.
	maxMessage = 16 << 20
	// window is the flow control window of a stream, in bytes. It bounds what the
	// processor can send ahead of the reader.
	window = 1 << 20
	// reconnect is the pause after a failed attempt to connect. Envoy has none; it
	// connects anew for a request.
	reconnect = 50 * time.Millisecond
)

// Filter is the ext_proc filter of one connection manager. It is safe for
// concurrent use.
type Filter struct {
	config   bootstrap.Processor
	upstream *cluster.Cluster
	conn     *grpc.ClientConn
	client   servicev3.ExternalProcessorClient

	started, closed, failed, sent, received, timeouts, spurious, rejected *stats.Value
}

// New makes the filter and begins to connect to the processor.
func New(config bootstrap.Processor, upstream *cluster.Cluster, scope *stats.Scope) (*Filter, error) {
	security := insecure.NewCredentials()
	if settings := upstream.TLSConfig(); settings != nil {
		security = credentials.NewTLS(settings)
	}
	conn, err := grpc.NewClient("cluster:///"+upstream.Name,
		grpc.WithResolvers(hosts{upstream}),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithDisableServiceConfig(),
		grpc.WithTransportCredentials(security),
		grpc.WithAuthority(config.Authority),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return upstream.Dial(ctx, "tcp", address)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnect, Multiplier: 1, MaxDelay: reconnect},
			MinConnectTimeout: upstream.ConnectTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(16*window),
		grpc.WithIdleTimeout(0),
	)
	if err != nil {
		return nil, err
	}
	conn.Connect()
	count := func(name string) *stats.Value { return scope.Counter("ext_proc." + name) }
	return &Filter{
		config: config, upstream: upstream, conn: conn, client: servicev3.NewExternalProcessorClient(conn),
		started: count("streams_started"), closed: count("streams_closed"), failed: count("streams_failed"),
		sent: count("stream_msgs_sent"), received: count("stream_msgs_received"), timeouts: count("message_timeouts"),
		spurious: count("spurious_msgs_received"), rejected: count("rejected_header_mutations"),
	}, nil
}

// Config says what of a request and of a response the filter is to see.
func (f *Filter) Config() bootstrap.Processor { return f.config }

// Close ends the connection to the processor.
func (f *Filter) Close() { _ = f.conn.Close() }

// hosts tells gRPC the addresses of a cluster, so that a processor that moves is
// followed, and streams at one that goes away may end.
type hosts struct{ upstream *cluster.Cluster }

// Scheme is part of resolver.Builder.
func (h hosts) Scheme() string { return "cluster" }

// Build is part of resolver.Builder.
func (h hosts) Build(_ resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	h.upstream.Watch(func(addresses []string) {
		state := resolver.State{Addresses: make([]resolver.Address, len(addresses))}
		for i, address := range addresses {
			state.Addresses[i].Addr = address
		}
		// gRPC says no to an empty list, and fails streams at once, which is right.
		_ = conn.UpdateState(state)
	})
	return h, nil
}

// ResolveNow is part of resolver.Resolver.
func (h hosts) ResolveNow(resolver.ResolveNowOptions) { h.upstream.Refresh() }

// Close is part of resolver.Resolver. The cluster and the filter end together.
func (h hosts) Close() {}
