package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/internal/cluster/config"
)

// bridge is the name of the link between nodes, in the cluster's namespace.
const bridge = "slipway0"

// ipBatch runs commands of ip(8), one on each line.
func ipBatch(ctx context.Context, lines ...string) error {
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, strings.Join(strings.Fields(problems.String()), " "))
	}
	return nil
}

// setupClusterNetwork makes the bridge in the calling process's namespace, with
// routes to the pods of each node. Services are reached through the first node.
func setupClusterNetwork(ctx context.Context, nodes int) error {
	lines := []string{
		"link set lo up",
		"link add " + bridge + " type bridge",
		"addr add " + config.GatewayCIDR() + " dev " + bridge,
		"link set " + bridge + " up",
	}
	for i := 1; i <= nodes; i++ {
		n := config.Node{Index: i}
		lines = append(lines, fmt.Sprintf("route add %s via %s", n.PodRange(), n.Address()))
	}
	lines = append(lines, fmt.Sprintf("route add %s via %s", config.ServiceRange, config.Node{Index: 1}.Address()))
	if err := ipBatch(ctx, lines...); err != nil {
		return fmt.Errorf("set up the cluster's network: %w", err)
	}
	return writeSysctl("net/ipv4/ip_forward", "1")
}

// linkNode gives a node, whose first process is pid, its end of a link to the
// bridge. A link that a dead node left behind is gone with its namespace, though
// perhaps not yet.
func linkNode(ctx context.Context, n config.Node, pid int) error {
	outer := "veth" + strconv.Itoa(n.Index)
	_ = exec.CommandContext(ctx, "ip", "link", "del", outer).Run()
	return ipBatch(ctx,
		fmt.Sprintf("link add %s type veth peer name eth0 netns %d", outer, pid),
		fmt.Sprintf("link set %s master %s up", outer, bridge),
	)
}

// setupNodeNetwork configures a node's end, in the node's namespace.
func setupNodeNetwork(ctx context.Context, n config.Node, nodes int) error {
	lines := []string{
		"link set lo up",
		"addr add " + n.CIDR() + " dev eth0",
		"link set eth0 up",
		"route add default via " + config.Gateway,
	}
	for i := 1; i <= nodes; i++ {
		if i != n.Index {
			other := config.Node{Index: i}
			lines = append(lines, fmt.Sprintf("route add %s via %s", other.PodRange(), other.Address()))
		}
	}
	if err := ipBatch(ctx, lines...); err != nil {
		return fmt.Errorf("set up the node's network: %w", err)
	}
	return writeSysctl("net/ipv4/ip_forward", "1")
}

func writeSysctl(name, value string) error {
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	return nil
}

// forward carries each connection to a listener of the host to an address in
// the cluster's namespace, until ctx ends. The listener was made outside, so it
// stays the host's.
func forward(ctx context.Context, listener net.Listener, to string) {
	go func() {
		<-ctx.Done()
		listener.Close()
	}()
	for {
		outside, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		go carry(ctx, outside, to)
	}
}

func carry(ctx context.Context, outside net.Conn, to string) {
	defer outside.Close()
	inside, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer inside.Close()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		copyHalf(outside, inside)
	}()
	copyHalf(inside, outside)
	<-answered
}

// copyHalf copies one direction, and passes its end on without ending the other.
func copyHalf(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
