package extproc

import (
	"net/http"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"golang.org/x/net/http/httpguts"
)

// maxMutations bounds the headers that one answer sets or removes, as Envoy does
// by its limit of headers.
const maxMutations = 100

// Target is the headers that a mutation is applied to. Path and Status are nil
// where the message has none.
type Target struct {
	Header http.Header
	Path   *string
	Status *int
}

// Mutate applies what the processor wants changed, within Envoy's default rules:
// routing headers and x-envoy-* stay, and content-length is never taken, because
// a streamed body may have any. It fails if the answer breaks the protocol.
func (f *Filter) Mutate(target Target, mutation *servicev3.HeaderMutation) error {
	if len(mutation.GetSetHeaders()) > maxMutations || len(mutation.GetRemoveHeaders()) > maxMutations {
		f.rejected.Inc()
		return ErrSpurious
	}
	for _, name := range mutation.GetRemoveHeaders() {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, ":") || fixed(name) {
			f.rejected.Inc()
			continue
		}
		target.Header.Del(name)
	}
	for _, option := range mutation.GetSetHeaders() {
		if option.GetHeader() == nil {
			continue
		}
		if err := f.set(target, option); err != nil {
			f.rejected.Inc()
			return err
		}
	}
	return nil
}

func (f *Filter) set(target Target, option *corev3.HeaderValueOption) error {
	name := strings.ToLower(option.GetHeader().GetKey())
	value := string(option.GetHeader().GetRawValue())
	if value != "" && option.GetHeader().GetValue() != "" {
		return ErrSpurious
	}
	if value == "" {
		value = option.GetHeader().GetValue()
	}
	if !httpguts.ValidHeaderFieldName(strings.TrimPrefix(name, ":")) || !httpguts.ValidHeaderFieldValue(value) {
		return ErrSpurious
	}
	switch {
	case name == ":path" && target.Path != nil:
		*target.Path = value
	case name == ":status" && target.Status != nil:
		if code, err := strconv.Atoi(value); err == nil && code >= 200 && code < 600 {
			*target.Status = code
		}
	case strings.HasPrefix(name, ":") || fixed(name):
		f.rejected.Inc()
	case name == "content-length":
	default:
		setValue(target.Header, name, value, option)
	}
	return nil
}

// fixed tells of the headers that Envoy's default rules keep from a processor,
// and of those that belong to one connection.
func fixed(name string) bool {
	switch name {
	case "host", "connection", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection", "te", "trailer":
		return true
	}
	return strings.HasPrefix(name, "x-envoy")
}

// setValue sets or appends. An option that says nothing overwrites: the
// processors in the field rely on it, and Envoy does so.
func setValue(header http.Header, name, value string, option *corev3.HeaderValueOption) {
	_, exists := header[http.CanonicalHeaderKey(name)]
	switch option.GetAppendAction() {
	case corev3.HeaderValueOption_ADD_IF_ABSENT:
		if !exists {
			header.Set(name, value)
		}
	case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS:
		if exists {
			header.Set(name, value)
		}
	case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
		header.Set(name, value)
	default:
		if option.GetAppend().GetValue() { //nolint:staticcheck // deprecated, and what processors still set
			header.Add(name, value)
			return
		}
		header.Set(name, value)
	}
}
