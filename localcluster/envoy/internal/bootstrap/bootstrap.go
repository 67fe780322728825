// Package bootstrap reads an Envoy bootstrap: with Envoy's own messages and
// their rules, strictly, and refuses with one line whatever the stand-in doesn't
// honour. It never opens a file or a connection.
package bootstrap

import (
	"net"
	"strconv"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"   // resolves its typed_config
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3" // resolves its typed_config
	connectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// defaultMaxConnections bounds the downstream connections where the bootstrap
// doesn't. Envoy has no such bound; a pod's memory has.
const defaultMaxConnections = 20000

// maxItems bounds listeners, clusters, hosts and routes.
const maxItems = 1000

// Read turns a bootstrap's text into what the proxy is to do. Its error is one
// line that starts with the path of the field at fault.
func Read(text []byte) (*Config, error) {
	message, err := decode(text)
	if err != nil {
		return nil, err
	}
	if err := validate(message, ""); err != nil {
		return nil, err
	}
	if err := refuseUnsupported(message.ProtoReflect(), ""); err != nil {
		return nil, err
	}
	config := &Config{
		NodeID:         message.GetNode().GetId(),
		NodeCluster:    message.GetNode().GetCluster(),
		MaxConnections: defaultMaxConnections,
	}
	if config.JSON, err = protojson.Marshal(message); err != nil {
		return nil, fault("", "%s", oneLine(err.Error()))
	}
	if address := message.GetAdmin().GetAddress(); address != nil {
		if config.Admin, err = socket(address, "admin.address"); err != nil {
			return nil, err
		}
	}
	if err := config.readOverload(message); err != nil {
		return nil, err
	}
	if err := config.readStatic(message.GetStaticResources()); err != nil {
		return nil, err
	}
	return config, config.check()
}

func (c *Config) readOverload(message *bootstrapv3.Bootstrap) error {
	for i, monitor := range message.GetOverloadManager().GetResourceMonitors() {
		path := index("overload_manager.resource_monitors", i)
		limit := &connectionsv3.DownstreamConnectionsConfig{}
		if err := unpack(monitor.GetTypedConfig(), limit, path); err != nil {
			return err
		}
		c.MaxConnections = int(min(limit.GetMaxActiveDownstreamConnections(), defaultMaxConnections))
	}
	return nil
}

func (c *Config) readStatic(static *bootstrapv3.Bootstrap_StaticResources) error {
	if count := max(len(static.GetListeners()), len(static.GetClusters())); count > maxItems {
		return fault("static_resources", "has %d listeners or clusters; at most %d are honoured", count, maxItems)
	}
	for i, cluster := range static.GetClusters() {
		read, err := readCluster(cluster, index("static_resources.clusters", i))
		if err != nil {
			return err
		}
		c.Clusters = append(c.Clusters, read)
	}
	for i, listener := range static.GetListeners() {
		read, err := readListener(listener, index("static_resources.listeners", i))
		if err != nil {
			return err
		}
		c.Listeners = append(c.Listeners, read)
	}
	if len(c.Listeners) == 0 {
		return fault("static_resources.listeners", "there is none, and the stand-in knows no other source of listeners")
	}
	return nil
}

// unpack opens an Any that must hold the kind of message that into is.
func unpack(packed *anypb.Any, into proto.Message, path string) error {
	at := join(path, "typed_config")
	if packed == nil {
		return fault(at, "is missing")
	}
	if !packed.MessageIs(into) {
		return unsupported(at, packed.GetTypeUrl()+" here")
	}
	if err := packed.UnmarshalTo(into); err != nil {
		return fault(at, "%s", oneLine(err.Error()))
	}
	return nil
}

// socket turns an address of Envoy's into host:port.
func socket(address *corev3.Address, path string) (string, error) {
	host, port, err := hostPort(address, path)
	if err != nil {
		return "", err
	}
	if net.ParseIP(host) == nil {
		return "", fault(join(path, "socket_address.address"), "%q is no IP address", host)
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

func hostPort(address *corev3.Address, path string) (string, int, error) {
	socket := address.GetSocketAddress()
	if socket == nil {
		return "", 0, fault(path, "needs a socket_address")
	}
	path = join(path, "socket_address")
	if socket.GetProtocol() != corev3.SocketAddress_TCP {
		return "", 0, unsupported(join(path, "protocol"), socket.GetProtocol().String())
	}
	if _, ok := socket.GetPortSpecifier().(*corev3.SocketAddress_PortValue); !ok {
		return "", 0, fault(join(path, "port_value"), "is missing")
	}
	return socket.GetAddress(), int(socket.GetPortValue()), nil
}

// duration is the value of a field that may be unset.
func duration(value *durationpb.Duration, unset time.Duration) time.Duration {
	if value == nil {
		return unset
	}
	return value.AsDuration()
}
