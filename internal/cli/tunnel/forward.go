package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// Open forwards a free local port to the target and returns its address,
// http://127.0.0.1:PORT, and what ends the forwarding.
//
// It forwards a port and does not use the API server's services/proxy: that
// proxy holds back what it streams for up to 200 ms, which would clump tokens,
// and drops the Authorization header, which an engine with an API key needs.
// A forwarded port passes bytes as they are, and the rights to it are the same
// ones that `kubectl port-forward` needs.
func Open(ctx context.Context, config *rest.Config, target Target) (address string, end func(), err error) {
	dialer, err := newDialer(config, target)
	if err != nil {
		return "", nil, err
	}
	// The forwarder logs what its user sees anyway, as a broken connection.
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	faults := &lastLines{}
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, []string{"127.0.0.1"},
		[]string{fmt.Sprintf("0:%d", target.Port)}, ready, io.Discard, faults)
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("forward a port to pod %s: %w", target.Pod, err)
	}
	done := make(chan error, 1)
	go func() { done <- forwarder.ForwardPorts() }()
	end = func() {
		cancel()
		<-done //nolint:errcheck // why it ended no longer matters
	}
	select {
	case <-ready:
	case err := <-done:
		cancel()
		if err == nil {
			err = errors.New(faults.String())
		}
		return "", nil, fmt.Errorf("forward a port to pod %s: %w", target.Pod, err)
	case <-ctx.Done():
		end()
		return "", nil, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil || len(ports) != 1 {
		end()
		return "", nil, fmt.Errorf("forward a port to pod %s: no port was opened: %w", target.Pod, err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0].Local), end, nil
}

// newDialer dials over a WebSocket, and over SPDY where the API server, or a
// proxy before it, refuses that.
func newDialer(config *rest.Config, target Target) (httpstream.Dialer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	url := client.CoreV1().RESTClient().Post().Resource("pods").
		Namespace(target.Namespace).Name(target.Pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	overSPDY := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	overWebSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	return portforward.NewFallbackDialerForStreaming(overWebSocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// lastLines keeps the last bytes that are written to it.
type lastLines struct {
	mu   sync.Mutex
	text []byte
}

const keptBytes = 4 << 10

func (l *lastLines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, data...)
	l.text = l.text[max(0, len(l.text)-keptBytes):]
	return len(data), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text))
}
