// Package chat talks to a model over OpenAI's API and shows its words as they
// come. It gets a connection from outside, and knows nothing of clusters.
package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/slipway-dev/slipway/internal/openai"
)

// maxReply is the most bytes that are read of an answer that isn't streamed.
const maxReply = 1 << 20

// Client is a connection to one server of models.
type Client struct {
	// HTTP sends the requests; it must set no time limit on a whole answer.
	HTTP *http.Client
	// BaseURL is the server's address without a path: http://127.0.0.1:8080.
	BaseURL string
	// Close ends the connection.
	Close func()
}

// Model returns the name of the first model that the server lists.
func (c *Client) Model(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.BaseURL+"/v1/models", nil)
	if err != nil {
		return "", err
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask for the model's name: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return "", fmt.Errorf("ask for the model's name: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", openai.DecodeError(response.StatusCode, body)
	}
	var list openai.ModelList
	if err := json.Unmarshal(body, &list); err != nil {
		return "", fmt.Errorf("GET /v1/models gave no list of models; does the image serve OpenAI's API? %w", err)
	}
	if len(list.Data) == 0 {
		return "", errors.New("the server lists no model at /v1/models; check the container's arguments")
	}
	return list.Data[0].ID, nil
}

// Answer asks for the next turn of a chat, and calls say with each piece of it
// as it arrives. It returns why the answer ended. A MaxTokens of 0 sets no
// limit. A refusal of the server is an *openai.Error; a stream that breaks off
// is an error too.
func (c *Client) Answer(ctx context.Context, chat openai.ChatRequest, say func(string) error) (finish string, err error) {
	chat.Stream = true
	body, err := json.Marshal(chat)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BaseURL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	response, err := c.HTTP.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask the model: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		refusal, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
		if err != nil {
			return "", fmt.Errorf("ask the model: %w", err)
		}
		return "", openai.DecodeError(response.StatusCode, refusal)
	}
	return read(response.Body, say)
}

// read follows a stream to its end.
func read(stream io.Reader, say func(string) error) (finish string, err error) {
	events := openai.NewEventReader(stream)
	for {
		data, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return finish, errors.New("the answer broke off: the connection was closed before its end")
		case err != nil:
			return finish, fmt.Errorf("the answer broke off: %w", err)
		case string(data) == openai.Done:
			return finish, nil
		}
		var event struct {
			openai.ChatChunk
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(data, &event); err != nil {
			return finish, fmt.Errorf("the answer holds what isn't a chunk of a chat: %w", err)
		}
		if len(event.Error) > 0 && string(event.Error) != "null" {
			return finish, openai.DecodeError(http.StatusInternalServerError, data)
		}
		for _, choice := range event.Choices {
			if choice.FinishReason != nil {
				finish = *choice.FinishReason
			}
			if choice.Delta.Content == "" {
				continue
			}
			if err := say(choice.Delta.Content); err != nil {
				return finish, err
			}
		}
	}
}
