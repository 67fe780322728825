package simulator

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// hand is a clock that is moved by hand: each sleep ends when it is told to.
type hand struct {
	sleeping chan time.Duration
	wake     chan struct{}
}

func newHand() hand { return hand{sleeping: make(chan time.Duration), wake: make(chan struct{})} }

func (hand) Now() time.Time { return time.Unix(1_000_000_000, 0) }

func (h hand) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case h.sleeping <- d:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-h.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// running is a simulator that Run serves.
type running struct {
	addresses []string
	stop      context.CancelFunc
	ended     chan error
	log       *syncWriter
}

type syncWriter struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *syncWriter) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(data)
}

func (w *syncWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// start runs a simulator on a free loopback port until the test ends.
func start(t *testing.T, clock Clock, args ...string) running {
	t.Helper()
	config, err := Load(append([]string{"--model", "m", "--host", "127.0.0.1", "--port", "0"}, args...), env())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := running{stop: stop, ended: make(chan error, 1), log: &syncWriter{}}
	listening := make(chan []net.Addr, 1)
	go func() {
		r.ended <- Run(ctx, config, Options{Clock: clock, Log: r.log, Listening: func(a []net.Addr) { listening <- a }})
	}()
	select {
	case addresses := <-listening:
		for _, address := range addresses {
			r.addresses = append(r.addresses, address.String())
		}
	case err := <-r.ended:
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return r
}

func status(t *testing.T, url string) int {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// A stop turns readiness off, lets new requests in for the drain delay, lets
// those in flight finish, and then ends without an error.
func TestDrain(t *testing.T) {
	clock := newHand()
	server := start(t, clock, "--inter-token-latency", "10ms", "--mode", "echo")
	url := "http://" + server.addresses[0]
	response, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"one two","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	stream := bufio.NewReader(response.Body)
	if line, err := stream.ReadString('\n'); err != nil || !strings.Contains(line, `"text":"one"`) {
		t.Fatalf("the first event is %q, %v", line, err)
	}
	<-clock.sleeping // The answer waits for its second token.
	if got := status(t, url+"/health/ready"); got != 200 {
		t.Errorf("before the stop readiness is %d", got)
	}
	server.stop()
	if d := <-clock.sleeping; d != time.Second {
		t.Errorf("the drain delay is %s", d)
	}
	if ready, alive := status(t, url+"/health/ready"), status(t, url+"/health"); ready != 503 || alive != 200 {
		t.Errorf("while draining readiness is %d and health is %d", ready, alive)
	}
	late, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"late"}`))
	if err != nil || late.StatusCode != 200 {
		t.Errorf("a request within the drain delay gives %v, %v", late, err)
	} else {
		late.Body.Close()
	}
	clock.wake <- struct{}{} // One of: the drain delay is over, the second token is due.
	clock.wake <- struct{}{}
	rest, err := io.ReadAll(stream)
	if err != nil || !strings.Contains(string(rest), `"text":" two"`) || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the rest of the stream is %q, %v", rest, err)
	}
	if err := <-server.ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if _, err := net.Dial("tcp", server.addresses[0]); err == nil {
		t.Error("the port is still open")
	}
}

// A request that never ends is cut off after the grace period.
func TestGracePeriod(t *testing.T) {
	clock := newHand()
	server := start(t, clock, "--time-to-first-token", "1h", "--drain-delay", "0", "--shutdown-grace-period", "1ms")
	failed := make(chan error, 1)
	go func() {
		response, err := http.Post("http://"+server.addresses[0]+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"x"}`))
		if err == nil {
			response.Body.Close()
		}
		failed <- err
	}()
	<-clock.sleeping
	server.stop()
	if err := <-server.ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if err := <-failed; err == nil {
		t.Error("the endless request was answered")
	}
	if log := server.log.String(); !strings.Contains(log, "the grace period of 1ms is over") {
		t.Errorf("the log is %q", log)
	}
}

func TestRanks(t *testing.T) {
	server := start(t, SystemClock{}, "--data-parallel-size", "3", "--drain-delay", "0")
	if len(server.addresses) != 3 {
		t.Fatalf("the ranks listen on %q", server.addresses)
	}
	for i, address := range server.addresses {
		if got := status(t, "http://"+address+"/v1/models"); got != 200 {
			t.Errorf("rank %d gives %d", i, got)
		}
	}
	server.stop()
	if err := <-server.ended; err != nil {
		t.Error(err)
	}
}

// Ranks of a given port stand side by side.
func TestRankPorts(t *testing.T) {
	config, err := Load([]string{"--model", "m", "--host", "127.0.0.1", "--data-parallel-size", "2"}, env())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // A pair of free ports has to be found.
		probe, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		config.Port = probe.Addr().(*net.TCPAddr).Port
		probe.Close()
		fleet, err := listen(config, Options{Clock: SystemClock{}, Log: io.Discard}, nil)
		if err != nil {
			continue
		}
		defer fleet.close()
		for i, r := range fleet {
			if got := r.listener.Addr().(*net.TCPAddr).Port; got != config.Port+i || r.server.port != fmt.Sprint(config.Port+i) {
				t.Errorf("rank %d listens on %d", i, got)
			}
		}
		return
	}
	t.Error("no two free ports side by side in 20 tries")
}

func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	config, err := Load([]string{"--model", "m", "--host", "127.0.0.1", "--port", fmt.Sprint(port)}, env())
	if err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), config, Options{Clock: SystemClock{}, Log: io.Discard})
	if want := fmt.Sprintf("port %d can't be listened on; choose another with --port or PORT", port); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the error is %v", err)
	}
}

func TestSelfSigned(t *testing.T) {
	server := start(t, SystemClock{}, "--self-signed-certs", "--drain-delay", "0")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Get("https://" + server.addresses[0] + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 || response.TLS.PeerCertificates[0].VerifyHostname("localhost") != nil {
		t.Errorf("status %d, certificate for %v", response.StatusCode, response.TLS.PeerCertificates[0].DNSNames)
	}
}

func TestCertificateFiles(t *testing.T) {
	pair, err := selfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, keyFile: {Type: "EC PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := start(t, SystemClock{}, "--ssl-certfile", certFile, "--ssl-keyfile", keyFile, "--drain-delay", "0")
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	response, err := client.Get("https://" + server.addresses[0] + "/health")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()

	config, err := Load([]string{"--model", "m", "--ssl-certfile", keyFile, "--ssl-keyfile", certFile}, env())
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), config, Options{Clock: SystemClock{}, Log: io.Discard}); err == nil || !strings.Contains(err.Error(), "--ssl-certfile and --ssl-keyfile can't be used") {
		t.Errorf("swapped files give %v", err)
	}
}
