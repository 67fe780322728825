package helm

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// callTimeout bounds one request of the SDK, watches left out.
const callTimeout = time.Minute

// leashed gives a configuration whose requests end with ctx. The SDK takes a
// context for few of its requests, and goes on in the background after the end
// of the one that it was given; on a leash nothing is written after the end.
func leashed(ctx context.Context, config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server's priority and fairness limits us
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &leash{ctx: ctx, next: next} })
	return config
}

type leash struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (l *leash) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := l.ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(request.Context())
	if request.URL.Query().Get("watch") == "" {
		cancel()
		ctx, cancel = context.WithTimeout(request.Context(), callTimeout)
	}
	release := context.AfterFunc(l.ctx, cancel)
	end := func() {
		release()
		cancel()
	}
	response, err := l.next.RoundTrip(request.Clone(ctx))
	if err != nil {
		end()
		return nil, err
	}
	response.Body = &leashedBody{ReadCloser: response.Body, end: end}
	return response, nil
}

type leashedBody struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *leashedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
