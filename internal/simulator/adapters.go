package simulator

import (
	"net/http"
	"slices"
	"sync"

	"github.com/slipway-dev/slipway/internal/openai"
)

// adapterSet is the LoRA adapters that are loaded. Its size is bounded by
// MaxCPULoRAs.
type adapterSet struct {
	mu     sync.RWMutex
	limit  int
	loaded []Adapter // in the order of loading
}

func (a *adapterSet) init(config *Config) {
	a.limit = config.MaxCPULoRAs
	a.loaded = slices.Clone(config.Adapters)
}

func (a *adapterSet) has(name string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.index(name) >= 0
}

// index finds an adapter; the caller holds the lock.
func (a *adapterSet) index(name string) int {
	return slices.IndexFunc(a.loaded, func(other Adapter) bool { return other.Name == name })
}

func (a *adapterSet) list() []Adapter {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Clone(a.loaded)
}

// resolve returns the name that answers bear, and the adapter that a request
// for the model needs, if any. It returns a 404 for an unknown model.
func (s *Server) resolve(model string) (display, adapter string, fault *openai.Error) {
	if slices.Contains(s.config.ServedModelNames, model) {
		return s.config.ServedModelNames[0], "", nil
	}
	if s.loras.has(model) {
		return model, model, nil
	}
	return "", "", openai.Errorf(http.StatusNotFound, "The model `%s` does not exist.", model)
}

// loadAdapter serves POST /v1/load_lora_adapter. Loading what is loaded is no
// fault, so that a repeated call is harmless.
func (s *Server) loadAdapter(w http.ResponseWriter, r *http.Request) {
	var request openai.LoadAdapterRequest
	if fault := s.readJSON(w, r, &request); fault != nil {
		refuse(w, fault)
		return
	}
	if request.Name == "" || slices.Contains(s.config.ServedModelNames, request.Name) {
		refuse(w, openai.Errorf(http.StatusBadRequest, "lora_name %q can't be used; give the adapter a name of its own.", request.Name))
		return
	}
	s.loras.mu.Lock()
	defer s.loras.mu.Unlock()
	switch i := s.loras.index(request.Name); {
	case i >= 0:
		s.loras.loaded[i].Path = request.Path
	case len(s.loras.loaded) >= s.loras.limit:
		refuse(w, openai.Errorf(http.StatusBadRequest,
			"%d adapters are loaded, which is all that --max-cpu-loras allows; unload one first.", s.loras.limit))
		return
	default:
		s.loras.loaded = append(s.loras.loaded, Adapter{Name: request.Name, Path: request.Path})
	}
	w.WriteHeader(http.StatusOK)
}

// unloadAdapter serves POST /v1/unload_lora_adapter.
func (s *Server) unloadAdapter(w http.ResponseWriter, r *http.Request) {
	var request openai.LoadAdapterRequest
	if fault := s.readJSON(w, r, &request); fault != nil {
		refuse(w, fault)
		return
	}
	s.loras.mu.Lock()
	defer s.loras.mu.Unlock()
	i := s.loras.index(request.Name)
	if i < 0 {
		refuse(w, openai.Errorf(http.StatusNotFound, "The lora adapter '%s' cannot be found.", request.Name))
		return
	}
	s.loras.loaded = slices.Delete(s.loras.loaded, i, i+1)
	w.WriteHeader(http.StatusOK)
}
