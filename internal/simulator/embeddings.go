package simulator

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"

	"github.com/slipway-dev/slipway/internal/latency"
	"github.com/slipway-dev/slipway/internal/openai"
)

// Sizes of embedding vectors: that of many small models by default.
const (
	usualDimensions = 384
	maxDimensions   = 16384
)

// embed serves POST /v1/embeddings: unit vectors that depend on the input
// alone, so that equal texts are equal and others are far apart.
func (s *Server) embed(w http.ResponseWriter, r *http.Request) {
	var request openai.EmbeddingRequest
	if fault := s.readJSON(w, r, &request); fault != nil {
		refuse(w, fault)
		return
	}
	x := s.acquire()
	defer s.release(x)
	x.model = request.Model
	if fault := s.admitEmbedding(x, &request); fault != nil {
		refuse(w, fault)
		return
	}
	if err := x.stay.embed(r.Context()); err != nil {
		s.fail(w, err)
		return
	}
	dimensions := usualDimensions
	if request.Dimensions != nil {
		dimensions = int(*request.Dimensions)
	}
	list := openai.EmbeddingList{ID: newID("embd-"), Object: "list", Model: x.display}
	list.Usage = openai.Usage{PromptTokens: len(x.tokens), TotalTokens: len(x.tokens)}
	start := 0
	for i, end := range x.ends {
		vector := vectorOf(x.tokens[start:end], dimensions)
		list.Data = append(list.Data, openai.Embedding{
			Object: "embedding", Index: i, Embedding: encodeVector(vector, request.EncodingFormat),
		})
		start = end
	}
	reply(w, list)
}

func (s *Server) admitEmbedding(x *exchange, request *openai.EmbeddingRequest) *openai.Error {
	if s.engine.asleep.Load() {
		return openai.Errorf(http.StatusServiceUnavailable, "The engine is asleep; POST /wake_up first.")
	}
	var fault *openai.Error
	if x.display, x.adapter, fault = s.resolve(request.Model); fault != nil {
		return fault
	}
	if request.Dimensions != nil && (*request.Dimensions < 1 || *request.Dimensions > maxDimensions) {
		return openai.Errorf(http.StatusBadRequest, "dimensions is %d; it must be from 1 to %d.", *request.Dimensions, maxDimensions)
	}
	if request.EncodingFormat != "" && request.EncodingFormat != "float" && request.EncodingFormat != "base64" {
		return openai.Errorf(http.StatusBadRequest, "encoding_format is %q; it must be float or base64.", request.EncodingFormat)
	}
	if request.Input.Len() == 0 {
		return openai.Errorf(http.StatusBadRequest, "input is missing; send a string.")
	}
	if fault := x.prompts(request.Input); fault != nil {
		return fault
	}
	if fault := s.checkQuery(x); fault != nil {
		return fault
	}
	x.stay.seedFor(nil)
	x.stay.prompt = latency.Prompt{Tokens: len(x.tokens)}
	return inject(s.config, x.stay.rng)
}

// vectorOf returns a vector of length one that the tokens determine.
func vectorOf(tokens []uint32, dimensions int) []float32 {
	var seed uint64
	for _, token := range tokens {
		seed = seed*0x9e3779b97f4a7c15 + uint64(token) + 1
	}
	rng := rand.New(rand.NewPCG(seed, uint64(len(tokens))))
	vector := make([]float32, dimensions)
	var norm float64
	for i := range vector {
		x := rng.NormFloat64()
		vector[i] = float32(x)
		norm += x * x
	}
	for i := range vector {
		vector[i] = float32(float64(vector[i]) / math.Sqrt(norm))
	}
	return vector
}

func encodeVector(vector []float32, format string) json.RawMessage {
	var value any = vector
	if format == "base64" {
		raw := make([]byte, 0, 4*len(vector))
		for _, x := range vector {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		value = base64.StdEncoding.EncodeToString(raw)
	}
	data, err := json.Marshal(value)
	if err != nil { // Finite numbers always encode.
		panic(err)
	}
	return data
}
