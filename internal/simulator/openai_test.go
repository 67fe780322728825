package simulator_test

import (
	"encoding/json"
	"errors"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/slipway-dev/slipway/internal/simulator"
)

// connect starts a simulator and returns OpenAI's own client for it.
func connect(t *testing.T, args ...string) openai.Client {
	t.Helper()
	config, err := simulator.Load(append([]string{"--model", "m", "--seed", "1"}, args...), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(simulator.New(config, simulator.SystemClock{}))
	t.Cleanup(server.Close)
	return openai.NewClient(option.WithBaseURL(server.URL+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

func ask(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage("Be brief."), openai.UserMessage(text),
	}}
}

func TestClientChat(t *testing.T) {
	client := connect(t, "--mode", "echo")
	answer, err := client.Chat.Completions.New(t.Context(), ask("Hello!"))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Choices[0].Message.Content != "Hello!" || answer.Choices[0].FinishReason != "stop" || answer.Usage.CompletionTokens != 2 ||
		answer.Usage.TotalTokens != answer.Usage.PromptTokens+2 || string(answer.Object) != "chat.completion" {
		t.Errorf("the answer is %s", answer.RawJSON())
	}
}

func TestClientStream(t *testing.T) {
	client := connect(t, "--mode", "echo")
	params := ask("one two three")
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	var whole openai.ChatCompletionAccumulator
	pieces := 0
	for stream.Next() {
		chunk := stream.Current()
		if !whole.AddChunk(chunk) {
			t.Fatalf("the client can't add %s", chunk.RawJSON())
		}
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			pieces++
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if whole.Choices[0].Message.Content != "one two three" || pieces != 3 || whole.Usage.CompletionTokens != 3 || whole.Choices[0].FinishReason != "stop" {
		t.Errorf("%d pieces: %+v", pieces, whole.ChatCompletion)
	}
}

func TestClientCompletion(t *testing.T) {
	client := connect(t, "--mode", "echo")
	params := openai.CompletionNewParams{Model: "m", MaxTokens: openai.Int(2),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"one two three", "four"}}}
	answer, err := client.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Choices) != 2 || answer.Choices[0].Text != "one two" || answer.Choices[0].FinishReason != "length" || answer.Choices[1].Text != "four" {
		t.Errorf("the answer is %s", answer.RawJSON())
	}
	stream := client.Completions.NewStreaming(t.Context(), params)
	texts := make([]string, 2)
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			texts[choice.Index] += choice.Text
		}
	}
	if stream.Err() != nil || texts[0] != "one two" || texts[1] != "four" {
		t.Errorf("streamed %q, %v", texts, stream.Err())
	}
}

func TestClientModels(t *testing.T) {
	client := connect(t, "--served-model-name", "a", "b", "--lora-modules", `{"name":"l"}`)
	var ids []string
	pages := client.Models.ListAutoPaging(t.Context())
	for pages.Next() {
		ids = append(ids, pages.Current().ID)
	}
	if pages.Err() != nil || strings.Join(ids, ",") != "a,b,l" {
		t.Errorf("the models are %q, %v", ids, pages.Err())
	}
}

func TestClientEmbeddings(t *testing.T) {
	client := connect(t)
	answer, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "m", Dimensions: openai.Int(16), Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var norm float64
	for _, x := range answer.Data[1].Embedding {
		norm += x * x
	}
	if len(answer.Data) != 2 || len(answer.Data[0].Embedding) != 16 || math.Abs(norm-1) > 1e-5 || answer.Usage.PromptTokens != 2 {
		t.Errorf("the answer is %s", answer.RawJSON())
	}
}

func TestClientErrors(t *testing.T) {
	client := connect(t, "--max-model-len", "10")
	for name, test := range map[string]struct {
		change func(*openai.ChatCompletionNewParams)
		status int
		kind   string
	}{
		"unknown model": {func(p *openai.ChatCompletionNewParams) { p.Model = "x" }, 404, "NotFoundError"},
		"too long":      {func(p *openai.ChatCompletionNewParams) { p.MaxTokens = openai.Int(100) }, 400, "BadRequestError"},
		"no tokens":     {func(p *openai.ChatCompletionNewParams) { p.MaxTokens = openai.Int(0) }, 400, "BadRequestError"},
	} {
		params := ask("hi")
		test.change(&params)
		_, err := client.Chat.Completions.New(t.Context(), params)
		var fault *openai.Error
		if !errors.As(err, &fault) || fault.StatusCode != test.status || fault.Type != test.kind || fault.Message == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for kind, status := range map[string]int{"rate_limit": 429, "invalid_api_key": 401, "server_error": 503} {
		failing := connect(t, "--failure-injection-rate", "100", "--failure-types", kind)
		_, err := failing.Chat.Completions.New(t.Context(), ask("hi"))
		var fault *openai.Error
		if !errors.As(err, &fault) || fault.StatusCode != status {
			t.Errorf("%s: %v", kind, err)
		}
		stream := failing.Chat.Completions.NewStreaming(t.Context(), ask("hi"))
		if stream.Next() || !errors.As(stream.Err(), &fault) || fault.StatusCode != status {
			t.Errorf("%s, streamed: %v", kind, stream.Err())
		}
	}
}

func TestClientTools(t *testing.T) {
	client := connect(t)
	params := ask("What is the weather in Oslo?")
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "weather",
		Parameters: shared.FunctionParameters{"type": "object", "required": []string{"city"},
			"properties": map[string]any{"city": map[string]any{"type": "string"}, "days": map[string]any{"type": "integer"}}},
	})}
	params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	answer, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	check := func(message openai.ChatCompletionMessage, finish string) {
		t.Helper()
		if finish != "tool_calls" || len(message.ToolCalls) != 1 || message.ToolCalls[0].Function.Name != "weather" || message.ToolCalls[0].ID == "" {
			t.Fatalf("the message is %+v, ended by %s", message, finish)
		}
		var arguments map[string]any
		if err := json.Unmarshal([]byte(message.ToolCalls[0].Function.Arguments), &arguments); err != nil || arguments["city"] == nil {
			t.Errorf("the arguments are %s, %v", message.ToolCalls[0].Function.Arguments, err)
		}
	}
	check(answer.Choices[0].Message, answer.Choices[0].FinishReason)

	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		whole.AddChunk(stream.Current())
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}
	check(whole.Choices[0].Message, whole.Choices[0].FinishReason)

	params.Messages = append(params.Messages, answer.Choices[0].Message.ToParam(), openai.ToolMessage("12 degrees", answer.Choices[0].Message.ToolCalls[0].ID))
	params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")}
	after, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil || after.Choices[0].FinishReason != "stop" || after.Choices[0].Message.Content == "" {
		t.Errorf("after the call: %v, %+v", err, after)
	}
}
