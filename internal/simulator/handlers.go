package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/slipway-dev/slipway/internal/openai"
)

// bodies holds buffers for requests' bodies.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepBuffer is the largest buffer that is kept for another request.
const keepBuffer = 64 << 10

// readJSON decodes a body of at most MaxBodyMiB into value.
func (s *Server) readJSON(w http.ResponseWriter, r *http.Request, value any) *openai.Error {
	buffer := bodies.Get().(*bytes.Buffer)
	buffer.Reset()
	defer func() {
		if buffer.Cap() <= keepBuffer {
			bodies.Put(buffer)
		}
	}()
	_, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, int64(s.config.MaxBodyMiB)<<20))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return openai.Errorf(http.StatusRequestEntityTooLarge, "The request's body is larger than %d MiB; raise --max-request-body-size-mb.", s.config.MaxBodyMiB)
	case err != nil:
		return openai.Errorf(http.StatusBadRequest, "The request's body can't be read: %v", err)
	case buffer.Len() == 0:
		return openai.Errorf(http.StatusBadRequest, "The request has no body; send a JSON object.")
	}
	if err := json.Unmarshal(buffer.Bytes(), value); err != nil {
		return openai.Errorf(http.StatusBadRequest, "The request's body is not valid: %v", err)
	}
	return nil
}

// refuse answers with an error in OpenAI's shape.
func refuse(w http.ResponseWriter, fault *openai.Error) {
	write(w, fault.Code, fault.Encode())
}

// reply answers with JSON.
func reply(w http.ResponseWriter, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		refuse(w, openai.Errorf(http.StatusInternalServerError, "The answer can't be encoded: %v", err))
		return
	}
	write(w, http.StatusOK, data)
}

func write(w http.ResponseWriter, status int, data []byte) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	w.Write(data) // An error means that the client is gone.
}

func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	created := s.started.Unix()
	length := s.config.MaxModelLen
	list := openai.ModelList{Object: "list", Data: []openai.Model{}}
	for _, name := range s.config.ServedModelNames {
		list.Data = append(list.Data, openai.Model{
			ID: name, Object: "model", Created: created, OwnedBy: "vllm", Root: s.config.Model, MaxModelLen: &length,
		})
	}
	base := s.config.ServedModelNames[0]
	for _, adapter := range s.loras.list() {
		root := adapter.Path
		if root == "" {
			root = adapter.Name
		}
		list.Data = append(list.Data, openai.Model{
			ID: adapter.Name, Object: "model", Created: created, OwnedBy: "vllm", Root: root, Parent: &base,
		})
	}
	reply(w, list)
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var request openai.TokenizeRequest
	if fault := s.readJSON(w, r, &request); fault != nil {
		refuse(w, fault)
		return
	}
	if request.Model != "" {
		if _, _, fault := s.resolve(request.Model); fault != nil {
			refuse(w, fault)
			return
		}
	}
	tokens := []uint32{}
	if request.Messages != nil {
		tokens = appendMessages(tokens, request.Messages)
	} else {
		tokens = appendTokenIDs(tokens, request.Prompt)
	}
	reply(w, openai.Tokenized{Count: len(tokens), MaxModelLen: s.config.MaxModelLen, Tokens: tokens})
}

// appendMessages appends a chat's tokens: for each message one that stands for
// its role, as a chat template writes it, and its text.
func appendMessages(tokens []uint32, messages []openai.Message) []uint32 {
	for i := range messages {
		message := &messages[i]
		tokens = append(tokens, tokenID("<|"+message.Role+"|>"))
		tokens = appendTokenIDs(tokens, string(message.Content))
		for _, call := range message.ToolCalls {
			tokens = appendTokenIDs(tokens, call.Function.Name)
			tokens = appendTokenIDs(tokens, call.Function.Arguments)
		}
	}
	return tokens
}

func (s *Server) setFakeMetrics(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxConfigFile))
	if err != nil {
		refuse(w, openai.Errorf(http.StatusBadRequest, "The request's body can't be read: %v", err))
		return
	}
	fake, err := parseFakeMetrics(data)
	if err != nil {
		refuse(w, openai.Errorf(http.StatusBadRequest, "%v", err))
		return
	}
	s.faked.Store(fake)
	w.WriteHeader(http.StatusOK)
}

func (s *Server) exposeMetrics(w http.ResponseWriter, _ *http.Request) {
	data := s.engine.metrics.expose()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Write(data) // An error means that the scraper is gone.
}

func (s *Server) sleep(w http.ResponseWriter, _ *http.Request) {
	if s.config.EnableSleepMode {
		s.engine.asleep.Store(true)
		s.engine.dropCache()
	}
	w.WriteHeader(http.StatusOK)
}

func (s *Server) wakeUp(w http.ResponseWriter, _ *http.Request) {
	s.engine.asleep.Store(false)
	w.WriteHeader(http.StatusOK)
}

func (s *Server) isSleeping(w http.ResponseWriter, _ *http.Request) {
	reply(w, map[string]bool{"is_sleeping": s.engine.asleep.Load()})
}

// health tells that the process serves, as a liveness probe asks. It stays so
// while the server drains.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	reply(w, struct{}{})
}

// readiness tells whether new requests should come here.
func (s *Server) readiness(w http.ResponseWriter, _ *http.Request) {
	switch {
	case !s.ready.Load():
		plain(w, http.StatusServiceUnavailable, "stopping\n")
	case s.clock.Now().Sub(s.started) < s.config.StartupDuration:
		plain(w, http.StatusServiceUnavailable, "starting\n")
	default:
		reply(w, struct{}{})
	}
}
