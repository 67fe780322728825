package bootstrap

import (
	"regexp"
	"slices"
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// Envoy's defaults, from the documents of its routes.
const (
	defaultRouteTimeout = 15 * time.Second
	defaultRetries      = 1
	// maxRetries bounds the retries of one request.
	maxRetries = 16
)

// conditions are the retry conditions that the stand-in knows.
var conditions = []string{"5xx", "gateway-error", "reset", "connect-failure", "refused-stream", "retriable-4xx", "retriable-status-codes"}

func readVirtualHosts(message *routev3.RouteConfiguration, path string) ([]VirtualHost, error) {
	var hosts []VirtualHost
	seen := map[string]bool{}
	for i, message := range message.GetVirtualHosts() {
		at := index(join(path, "virtual_hosts"), i)
		for j, domain := range message.GetDomains() {
			at := index(join(at, "domains"), j)
			if domain != "*" && strings.Contains(domain, "*") {
				return nil, unsupported(at, "a pattern other than *")
			}
			if domain = strings.ToLower(domain); seen[domain] {
				return nil, fault(at, "%q belongs to two virtual hosts", domain)
			}
			seen[domain] = true
		}
		if len(message.GetRoutes()) > maxItems {
			return nil, fault(join(at, "routes"), "has %d routes; at most %d are honoured", len(message.GetRoutes()), maxItems)
		}
		host := VirtualHost{Name: message.GetName(), Domains: message.GetDomains()}
		for j, message := range message.GetRoutes() {
			route, err := readRoute(message, index(join(at, "routes"), j))
			if err != nil {
				return nil, err
			}
			host.Routes = append(host.Routes, route)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

func readRoute(message *routev3.Route, path string) (Route, error) {
	var route Route
	var err error
	if route.Match, err = readMatch(message.GetMatch(), join(path, "match")); err != nil {
		return Route{}, err
	}
	for i, name := range message.GetRequestHeadersToRemove() {
		if strings.HasPrefix(name, ":") || strings.EqualFold(name, "host") {
			return Route{}, fault(index(join(path, "request_headers_to_remove"), i), "a request can't be without %s", name)
		}
		route.Remove = append(route.Remove, name)
	}
	if direct := message.GetDirectResponse(); direct != nil {
		route.Direct = &DirectResponse{int(direct.GetStatus()), direct.GetBody().GetInlineString()}
		return route, nil
	}
	action := message.GetRoute()
	path = join(path, "route")
	route.Cluster = action.GetCluster()
	if route.Cluster == "" {
		return Route{}, fault(join(path, "cluster"), "is missing")
	}
	route.Timeout = duration(action.GetTimeout(), defaultRouteTimeout)
	if action.GetIdleTimeout() != nil {
		idle := action.GetIdleTimeout().AsDuration()
		route.IdleTimeout = &idle
	}
	route.Retry, err = readRetry(action.GetRetryPolicy(), join(path, "retry_policy"))
	return route, err
}

func readMatch(message *routev3.RouteMatch, path string) (Match, error) {
	var match Match
	switch specifier := message.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		match.Prefix = specifier.Prefix
	case *routev3.RouteMatch_Path:
		match.Path, match.Exact = specifier.Path, true
	case *routev3.RouteMatch_SafeRegex:
		compiled, err := anchored(specifier.SafeRegex, join(path, "safe_regex"))
		if err != nil {
			return Match{}, err
		}
		match.Regex = compiled
	default:
		return Match{}, fault(path, "needs a prefix, a path or a safe_regex")
	}
	var err error
	match.Headers, err = readHeaderMatches(message.GetHeaders(), join(path, "headers"))
	return match, err
}

// anchored compiles an expression that must match the whole text. Go's and
// Envoy's expressions are both RE2.
func anchored(message *matcherv3.RegexMatcher, path string) (*regexp.Regexp, error) {
	compiled, err := regexp.Compile(`^(?:` + message.GetRegex() + `)$`)
	if err != nil {
		return nil, fault(join(path, "regex"), "%s", oneLine(err.Error()))
	}
	return compiled, nil
}

func readHeaderMatches(messages []*routev3.HeaderMatcher, path string) ([]HeaderMatch, error) {
	var matches []HeaderMatch
	for i, message := range messages {
		at := index(path, i)
		match := HeaderMatch{Name: message.GetName(), Present: true, Invert: message.GetInvertMatch()}
		switch specifier := message.GetHeaderMatchSpecifier().(type) {
		case nil:
		case *routev3.HeaderMatcher_PresentMatch:
			match.Present = specifier.PresentMatch
		case *routev3.HeaderMatcher_StringMatch:
			value, err := readString(specifier.StringMatch, join(at, "string_match"))
			if err != nil {
				return nil, err
			}
			match.Value = value
		}
		matches = append(matches, match)
	}
	return matches, nil
}

func readString(message *matcherv3.StringMatcher, path string) (func(string) bool, error) {
	switch pattern := message.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return func(value string) bool { return value == pattern.Exact }, nil
	case *matcherv3.StringMatcher_Prefix:
		return func(value string) bool { return strings.HasPrefix(value, pattern.Prefix) }, nil
	case *matcherv3.StringMatcher_Suffix:
		return func(value string) bool { return strings.HasSuffix(value, pattern.Suffix) }, nil
	case *matcherv3.StringMatcher_Contains:
		return func(value string) bool { return strings.Contains(value, pattern.Contains) }, nil
	case *matcherv3.StringMatcher_SafeRegex:
		compiled, err := anchored(pattern.SafeRegex, join(path, "safe_regex"))
		if err != nil {
			return nil, err
		}
		return compiled.MatchString, nil
	}
	return nil, fault(path, "needs a pattern")
}

func readRetry(message *routev3.RetryPolicy, path string) (Retry, error) {
	if message == nil {
		return Retry{}, nil
	}
	retry := Retry{
		Max:           min(number(message.GetNumRetries(), defaultRetries), maxRetries),
		PerTryTimeout: duration(message.GetPerTryTimeout(), 0),
	}
	for _, condition := range strings.Split(message.GetRetryOn(), ",") {
		condition = strings.TrimSpace(condition)
		if condition == "" {
			continue
		}
		if !slices.Contains(conditions, condition) {
			return Retry{}, unsupported(join(path, "retry_on"), condition)
		}
		retry.On = append(retry.On, condition)
	}
	for _, code := range message.GetRetriableStatusCodes() {
		retry.StatusCodes = append(retry.StatusCodes, int(code))
	}
	return retry, nil
}
