package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/cluster"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/extproc"
)

// Why an exchange ended before its response did.
var (
	errRouteTimeout   = errors.New("upstream request timeout")
	errPerTryTimeout  = errors.New("upstream per try timeout")
	errIdle           = errors.New("stream timeout")
	errRequestTimeout = errors.New("request timeout")
	errClientGone     = errors.New("the client broke off its request")
	errOver           = errors.New("the exchange is over")
)

// reply is an answer on its way to the client: the upstream's, or the proxy's own.
type reply struct {
	status int
	header http.Header
	// body is nil if there is none; length is its number of bytes, or -1.
	body    io.Reader
	length  int64
	trailer func() http.Header
	// close lets go of the upstream.
	close func()
	// flags and details are what the access log says of it.
	flags, details string
	// reset is why the upstream gave no answer, for the retry policy.
	reset error
}

// local is an answer of the proxy's own, as Envoy words it.
func local(status int, text, flags, details string) *reply {
	answer := &reply{status: status, header: http.Header{}, flags: flags, details: details, close: func() {}}
	if text != "" {
		answer.header["Content-Type"] = []string{"text/plain"}
		answer.body, answer.length = bytes.NewReader([]byte(text)), int64(len(text))
	}
	answer.header["Content-Length"] = []string{strconv.Itoa(len(text))}
	return answer
}

// failed is the answer to a request that no upstream answered.
func failed(err error, retried bool) *reply {
	const prefix = "upstream connect error or disconnect/reset before headers. "
	latest := "reset reason: "
	if retried {
		latest = "retried and the latest reset reason: "
	}
	var network net.Error
	switch {
	case errors.Is(err, errRouteTimeout):
		return local(http.StatusGatewayTimeout, errRouteTimeout.Error(), "UT", "response_timeout")
	case errors.Is(err, errPerTryTimeout):
		return local(http.StatusGatewayTimeout, errRouteTimeout.Error(), "UT", "upstream_per_try_timeout")
	case errors.Is(err, errIdle):
		return local(http.StatusGatewayTimeout, errIdle.Error(), "SI", "stream_idle_timeout")
	case errors.Is(err, errRequestTimeout):
		return local(http.StatusRequestTimeout, errRequestTimeout.Error(), "-", "request_overall_timeout")
	case errors.Is(err, cluster.ErrNoHost):
		return local(http.StatusServiceUnavailable, cluster.ErrNoHost.Error(), "UH", "no_healthy_upstream")
	case errors.Is(err, cluster.ErrOverflow):
		return local(http.StatusServiceUnavailable, prefix+latest+"overflow", "UO", "upstream_reset_before_response_started{overflow}")
	case errors.Is(err, cluster.ErrConnect) && (errors.As(err, &network) && network.Timeout() || errors.Is(err, os.ErrDeadlineExceeded)):
		return local(http.StatusServiceUnavailable, prefix+latest+"connection timeout", "UF", "upstream_reset_before_response_started{connection_timeout}")
	case errors.Is(err, cluster.ErrConnect):
		return local(http.StatusServiceUnavailable, prefix+latest+"remote connection failure, transport failure reason: delayed connect error: Connection refused",
			"UF", "upstream_reset_before_response_started{remote_connection_failure}")
	default:
		return local(http.StatusServiceUnavailable, prefix+latest+"connection termination", "UC", "upstream_reset_before_response_started{connection_termination}")
	}
}

// unprocessed is the answer to a request whose processor failed or answered
// itself. It is nil if err came from neither.
func (x *exchange) unprocessed(err error) *reply {
	var failure *extproc.Failure
	var immediate *extproc.Immediate
	switch {
	case errors.As(err, &immediate):
		return x.immediate(immediate)
	case errors.As(err, &failure):
		return local(http.StatusInternalServerError, "", "-", failure.Error())
	case errors.Is(err, extproc.ErrTimeout):
		return local(http.StatusGatewayTimeout, "", "-", err.Error())
	case errors.Is(err, extproc.ErrSpurious):
		return local(http.StatusInternalServerError, "", "-", err.Error())
	}
	return failed(err, false)
}

func (x *exchange) immediate(answer *extproc.Immediate) *reply {
	status := int(answer.GetStatus().GetCode())
	if status < 200 || status > 599 {
		status = http.StatusOK
	}
	own := local(status, string(answer.GetBody()), "-", answer.GetDetails())
	if own.details == "" {
		own.details = "ext_proc_immediate_response"
	}
	if err := x.m.processor.Mutate(extproc.Target{Header: own.header}, answer.GetHeaders()); err != nil {
		return local(http.StatusInternalServerError, "", "-", fmt.Sprint(err))
	}
	return own
}
