package proxy

import (
	"net"
	"net/http"
	"strings"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
)

// match finds the route of a request: the virtual host of its authority, or the
// one for *, and in it the first route that fits. It is nil if there is none.
func match(hosts []bootstrap.VirtualHost, authority, path string, header http.Header) *bootstrap.Route {
	host := virtualHost(hosts, strings.ToLower(authority))
	if host == nil {
		return nil
	}
	bare, _, _ := strings.Cut(path, "?")
	for i := range host.Routes {
		if fits(host.Routes[i].Match, path, bare) && allHeaders(host.Routes[i].Match.Headers, header) {
			return &host.Routes[i]
		}
	}
	return nil
}

func virtualHost(hosts []bootstrap.VirtualHost, authority string) *bootstrap.VirtualHost {
	var fallback *bootstrap.VirtualHost
	for i := range hosts {
		for _, domain := range hosts[i].Domains {
			if domain == "*" {
				fallback = &hosts[i]
			} else if strings.EqualFold(domain, authority) {
				return &hosts[i]
			}
		}
	}
	return fallback
}

func fits(match bootstrap.Match, path, bare string) bool {
	switch {
	case match.Regex != nil:
		return match.Regex.MatchString(bare)
	case match.Exact:
		return bare == match.Path
	default:
		return strings.HasPrefix(path, match.Prefix)
	}
}

func allHeaders(matches []bootstrap.HeaderMatch, header http.Header) bool {
	for _, match := range matches {
		if fitsHeader(match, header) == match.Invert {
			return false
		}
	}
	return true
}

// fitsHeader takes several values of one name as one, with commas, as Envoy does.
func fitsHeader(match bootstrap.HeaderMatch, header http.Header) bool {
	values := header.Values(match.Name)
	if match.Value == nil {
		return (len(values) > 0) == match.Present
	}
	return len(values) > 0 && match.Value(strings.Join(values, ","))
}

// withPseudo are a request's headers with those that only matchers see.
func withPseudo(header http.Header, method, authority, path string) http.Header {
	all := header.Clone()
	all[":method"], all[":authority"], all[":path"] = []string{method}, []string{authority}, []string{path}
	return all
}

// internalAddress tells of the addresses that Envoy holds to be inside: loopback
// and the private networks.
func internalAddress(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && (ip.IsLoopback() || ip.IsPrivate())
}
