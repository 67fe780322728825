package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
)

// hopByHop are the headers that concern one connection only.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Trailer", "Te", "Expect"}

// removeHopByHop takes out what belongs to one connection, and what its
// Connection header names.
func removeHopByHop(header http.Header) {
	trailers := httpguts.HeaderValuesContainsToken(header["Te"], "trailers")
	for _, value := range header["Connection"] {
		for _, name := range strings.Split(value, ",") {
			header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		delete(header, name)
	}
	if trailers {
		header["Te"] = []string{"trailers"}
	}
}

// upstreamHeader are the request's headers as the filters and the upstream see
// them: without hop-by-hop ones, with those that an Envoy adds.
func upstreamHeader(config *bootstrap.HTTP, r *http.Request) http.Header {
	header := r.Header.Clone()
	removeHopByHop(header)
	inside := internalAddress(r.RemoteAddr)
	if config.UseRemoteAddress {
		if !inside {
			removeInternal(header)
		}
		if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
			if before := header.Values("X-Forwarded-For"); len(before) > 0 {
				host = strings.Join(before, ",") + "," + host
			}
			header.Set("X-Forwarded-For", host)
		}
	}
	if header.Get("X-Forwarded-Proto") == "" || (config.UseRemoteAddress && !inside) {
		header["X-Forwarded-Proto"] = []string{"http"}
	}
	edge := config.UseRemoteAddress && !inside && !config.PreserveRequestID
	if config.GenerateRequestID && (edge || header.Get("X-Request-Id") == "") {
		header["X-Request-Id"] = []string{newRequestID()}
	}
	if _, set := header["User-Agent"]; !set {
		// Otherwise Go's client would put in its own name.
		header["User-Agent"] = []string{""}
	}
	return header
}

// removeInternal takes out what only a caller inside may tell an Envoy.
func removeInternal(header http.Header) {
	for name := range header {
		if strings.HasPrefix(name, "X-Envoy-") {
			delete(header, name)
		}
	}
}

// newRequestID is a random UUID.
func newRequestID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	text := make([]byte, 36)
	hex.Encode(text, id[:4])
	hex.Encode(text[9:], id[4:6])
	hex.Encode(text[14:], id[6:8])
	hex.Encode(text[19:], id[8:10])
	hex.Encode(text[24:], id[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text)
}

func milliseconds(duration time.Duration) string {
	return strconv.FormatInt(duration.Milliseconds(), 10)
}
