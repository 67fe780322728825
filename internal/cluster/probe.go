package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/slipway-dev/slipway/internal/cluster/config"
)

// Bounds of waiting for a program. The programs tell nobody when they begin to
// serve, so their health endpoints are polled.
const (
	probeInterval = 50 * time.Millisecond
	probeTimeout  = 3 * time.Second
	probeDeadline = 3 * time.Minute
)

// probe asks a program whether it serves.
type probe struct {
	url    string
	client *http.Client
}

// newProbe is the probe of a control plane's program. etcd has none: the API
// server is ready only when etcd is.
func newProbe(s config.ControlPlane, name string) (*probe, error) {
	url, ok := map[string]string{
		config.Etcd:              fmt.Sprintf("https://127.0.0.1:%d/health", s.Ports.Etcd),
		config.APIServer:         fmt.Sprintf("https://%s:%d/readyz", s.Listen, s.Ports.APIServer),
		config.ControllerManager: fmt.Sprintf("https://127.0.0.1:%d/healthz", s.Ports.ControllerManager),
		config.Scheduler:         fmt.Sprintf("https://127.0.0.1:%d/readyz", s.Ports.Scheduler),
		config.Kwok:              fmt.Sprintf("http://127.0.0.1:%d/healthz", s.Ports.Kwok),
	}[name]
	if !ok {
		return nil, fmt.Errorf("no component %q", name)
	}
	ca, err := os.ReadFile(s.PKI("ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	pair, err := tls.LoadX509KeyPair(s.PKI("etcd-client.crt"), s.PKI("etcd-client.key"))
	if err != nil {
		return nil, fmt.Errorf("read a client certificate: %w", err)
	}
	return &probe{url: url, client: &http.Client{
		Timeout: probeTimeout,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		},
	}}, nil
}

// wait polls until the program answers well, it has ended, or ctx or the
// deadline passes.
func (p *probe) wait(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, probeDeadline)
	defer cancel()
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		err := p.once(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func (p *probe) once(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", p.url, response.Status)
	}
	return nil
}
