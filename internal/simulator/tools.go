package simulator

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/openai"
)

// Bounds of random arguments: how deep objects nest, and how many items a list
// has.
const (
	maxArgumentDepth = 8
	maxArgumentItems = 64
)

// schema is the part of JSON Schema from which arguments are made.
type schema struct {
	Type       any               `json:"type"`
	Enum       []any             `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	MinItems   *int              `json:"minItems"`
	MaxItems   *int              `json:"maxItems"`
	Minimum    *float64          `json:"minimum"`
	Maximum    *float64          `json:"maximum"`
}

// callTools decides whether the answer is a tool call, and makes it. Called is
// false when the answer shall be text.
func callTools(options ToolOptions, rng *rand.Rand, tools []openai.Tool, choice *openai.ToolChoice) (a answer, called bool, fault *openai.Error) {
	tool := tools[rng.IntN(len(tools))]
	switch {
	case choice != nil && choice.Function != "":
		i := slices.IndexFunc(tools, func(t openai.Tool) bool { return t.Function.Name == choice.Function })
		if i < 0 {
			return a, false, openai.Errorf(http.StatusBadRequest, "tool_choice names the function %q, which is not among the tools.", choice.Function)
		}
		tool = tools[i]
	case choice == nil || choice.Mode == "auto" || choice.Mode == "":
		if rng.IntN(100) >= options.CallProbability {
			return a, false, nil
		}
	case choice.Mode == "none":
		return a, false, nil
	case choice.Mode != "required":
		return a, false, openai.Errorf(http.StatusBadRequest, "tool_choice is %q; it must be none, auto or required, or name a function.", choice.Mode)
	}
	arguments, fault := makeArguments(options, rng, tool.Function)
	if fault != nil {
		return a, false, fault
	}
	id := newID("chatcmpl-tool-")
	a.finish = openai.FinishToolCalls
	a.calls = []openai.ToolCall{{ID: id, Type: "function", Function: openai.CallFunction{Name: tool.Function.Name, Arguments: arguments}}}
	index := 0
	a.pieces = append(a.pieces, openai.ToolCall{Index: &index, ID: id, Type: "function", Function: openai.CallFunction{Name: tool.Function.Name}})
	for _, piece := range appendTokens(nil, arguments) {
		a.pieces = append(a.pieces, openai.ToolCall{Index: &index, Function: openai.CallFunction{Arguments: piece}})
	}
	return a, true, nil
}

// makeArguments returns JSON that fits the function's parameters.
func makeArguments(options ToolOptions, rng *rand.Rand, function openai.Function) (string, *openai.Error) {
	var parameters schema
	if len(function.Parameters) > 0 {
		if err := json.Unmarshal(function.Parameters, &parameters); err != nil {
			return "", openai.Errorf(http.StatusBadRequest, "The parameters of the function %q are not a JSON schema: %v", function.Name, err)
		}
	}
	maker := argumentMaker{options: options, rng: rng}
	data, err := json.Marshal(maker.object(parameters, options.OptionalParamChance, 0))
	if err != nil {
		return "", openai.Errorf(http.StatusBadRequest, "Arguments for the function %q can't be made: %v", function.Name, err)
	}
	return string(data), nil
}

// argumentMaker draws values that fit a schema.
type argumentMaker struct {
	options ToolOptions
	rng     *rand.Rand
}

func (m argumentMaker) object(s schema, optionalChance, depth int) map[string]any {
	values := map[string]any{}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names) // The same draw goes to the same property each time.
	for _, name := range names {
		if slices.Contains(s.Required, name) || m.rng.IntN(100) < optionalChance {
			values[name] = m.value(s.Properties[name], depth+1)
		}
	}
	return values
}

func (m argumentMaker) value(s schema, depth int) any {
	if len(s.Enum) > 0 {
		return s.Enum[m.rng.IntN(len(s.Enum))]
	}
	switch kind := s.kind(); {
	case depth > maxArgumentDepth || kind == "null":
		return nil
	case kind == "integer":
		low, high := s.bounds(float64(m.options.MinInteger), float64(m.options.MaxInteger))
		return int64(math.Ceil(low)) + m.rng.Int64N(max(int64(high)-int64(math.Ceil(low)), 0)+1)
	case kind == "number":
		low, high := s.bounds(m.options.MinNumber, m.options.MaxNumber)
		return math.Round((low+m.rng.Float64()*(high-low))*100) / 100
	case kind == "boolean":
		return m.rng.IntN(2) == 1
	case kind == "array":
		return m.array(s, depth)
	case kind == "object":
		return m.object(s, m.options.OptionalFieldChance, depth)
	}
	sentence := strings.Fields(sentences[m.rng.IntN(len(sentences))])
	return strings.Trim(strings.ToLower(sentence[len(sentence)-1]), ".,")
}

func (m argumentMaker) array(s schema, depth int) []any {
	low, high := m.options.MinArrayLen, m.options.MaxArrayLen
	if s.MinItems != nil {
		low = min(max(*s.MinItems, 0), maxArgumentItems)
		high = max(high, low)
	}
	if s.MaxItems != nil {
		high = min(max(*s.MaxItems, low), maxArgumentItems)
	}
	items := schema{Type: "string"}
	if s.Items != nil {
		items = *s.Items
	}
	values := make([]any, low+m.rng.IntN(max(high-low, 0)+1))
	for i := range values {
		values[i] = m.value(items, depth+1)
	}
	return values
}

// kind returns the schema's type; of several types, the first.
func (s schema) kind() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			name, _ := t[0].(string)
			return name
		}
	}
	if s.Properties != nil {
		return "object"
	}
	return "string"
}

// argumentBound keeps numbers within what a JSON reader holds exactly.
const argumentBound = 1 << 53

// bounds narrows low and high to the schema's own.
func (s schema) bounds(low, high float64) (float64, float64) {
	if s.Minimum != nil {
		low = min(max(*s.Minimum, -argumentBound), argumentBound)
		high = max(high, low)
	}
	if s.Maximum != nil {
		high = min(max(*s.Maximum, -argumentBound), argumentBound)
		low = min(low, high)
	}
	return low, high
}
