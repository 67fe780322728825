package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/internal/image"
)

// clientManifest is a pod to send requests from.
const clientManifest = `
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: ` + stackNamespace + `}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: ` + probeImage + `, imagePullPolicy: Never, args: [serve, ":8080"]}
`

// gateways are the two of the full stack, and a Service of the decode stage.
const (
	standardGateway = "http://infra-sim-inference-gateway:8080"
	istioGateway    = "http://infra-sim-inference-gateway-istio:8080"
	decodeService   = "http://ms-sim-llm-d-modelservice-decode:8200"
)

// plainManifests are a stack with a gateway and no picker, in a namespace of its
// own.
const plainManifests = `
apiVersion: v1
kind: Namespace
metadata: {name: plain}
---
apiVersion: sim.llm-d.io/v1alpha1
kind: SimulatorDeployment
metadata: {name: plain, namespace: plain}
spec:
  inferenceGateway: {enabled: true, standard: {enabled: true}}
  prefill: {enabled: true, replicas: 1}
  decode: {enabled: true, replicas: 1}
`

// testPlain sends a request through a gateway that has no picker to ask.
func testPlain(c *localCluster) {
	c.kubectl("wait", "-n", "plain", "--for=condition=Ready", "simulatordeployment/plain", "--timeout=60s")
	got := c.post("http://infra-sim-inference-gateway.plain:8080/v1/completions", `{"model": "random", "prompt": "Hello", "max_tokens": 4, "ignore_eos": true}`)
	if got.status != "200" || !strings.Contains(got.body(), `"completion_tokens":4`) {
		c.t.Errorf("without a picker the gateway completes with %v", got)
	}
}

// testAnswers sends requests through both gateways, and learns from the pods'
// own metrics that a prefill pod and a decode pod did each.
func testAnswers(c *localCluster) {
	for _, gateway := range []string{standardGateway, istioGateway} {
		prefilled, decoded := c.served("prefill", "remote_decode"), c.served("decode", "length")
		text := c.post(gateway+"/v1/completions", `{"model": "random", "prompt": "Hello", "max_tokens": 4, "ignore_eos": true}`)
		if text.status != "200" || !strings.Contains(text.body(), `"object":"text_completion"`) || !strings.Contains(text.body(), `"completion_tokens":4`) {
			c.t.Errorf("%s completes with %v", gateway, text)
		}
		chat := c.post(gateway+"/v1/chat/completions", `{"model": "random", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "ignore_eos": true}`)
		if chat.status != "200" || !strings.Contains(chat.body(), `"object":"chat.completion"`) || !strings.Contains(chat.body(), `"completion_tokens":4`) {
			c.t.Errorf("%s chats with %v", gateway, chat)
		}
		sent := 2 + c.streams(gateway)
		if p, d := c.served("prefill", "remote_decode")-prefilled, c.served("decode", "length")-decoded; p != sent || d != sent {
			c.t.Errorf("of %d requests through %s prefill pods served %d and decode pods %d, want all each", sent, gateway, p, d)
		}
		if models := c.post(gateway+"/v1/models", ""); models.status != "200" || !strings.Contains(models.body(), `"id":"random"`) {
			c.t.Errorf("%s lists the models %v", gateway, models)
		}
		// The routing sidecar of v0.4.0 passes on the status of a prefill pod that
		// refuses, and not its words.
		const unknown = `{"model": "nobody", "messages": [{"role": "user", "content": "Hello"}]}`
		if refused := c.post(gateway+"/v1/chat/completions", unknown); refused.status != "404" {
			c.t.Errorf("%s says of an unknown model %v, want status 404", gateway, refused)
		}
		refused := c.post(decodeService+"/v1/chat/completions", unknown)
		if refused.status != "404" || !strings.Contains(refused.body(), `"type":"NotFoundError"`) || !strings.Contains(refused.body(), "The model `nobody` does not exist.") {
			c.t.Errorf("a decode pod says of an unknown model %v, want OpenAI's error", refused)
		}
	}
}

// streamed is how many tokens a stream has, of which the simulator gives one each
// 20 ms.
const streamed = 20

// streamTries bounds how many streams are looked at until one comes in its time: a
// busy machine may hold one up, and a proxy that holds tokens back does it each time.
const streamTries = 8

// streams takes streams until the tokens of one came as they were made: a proxy
// that holds them back lets them come at once. It returns how many it took.
func (c *localCluster) streams(gateway string) int {
	c.t.Helper()
	var seen [][]int
	for len(seen) < streamTries {
		tokens := c.stream(gateway)
		seen = append(seen, tokens)
		if tokens == nil {
			return len(seen) // it was told
		}
		longest := 0
		for i := 1; i < len(tokens); i++ {
			longest = max(longest, tokens[i]-tokens[i-1])
		}
		// All tokens take 380 ms. Held back, they would have no distance or one of all.
		if took := tokens[len(tokens)-1] - tokens[0]; took >= 300 && longest <= 200 {
			return len(seen)
		}
	}
	c.t.Errorf("the tokens of %s came in no stream one each 20 ms: %v", gateway, seen)
	return len(seen)
}

// stream takes a stream and gives the times at which its tokens came; nil when it
// isn't one, which it tells.
func (c *localCluster) stream(gateway string) []int {
	c.t.Helper()
	got := c.post(gateway+"/v1/chat/completions",
		fmt.Sprintf(`{"model": "random", "stream": true, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": %d, "ignore_eos": true}`, streamed))
	var tokens []int
	for _, line := range got.lines {
		if strings.Contains(line.text, `"delta":{"content":`) {
			tokens = append(tokens, line.at)
		}
	}
	if got.status != "200" || !strings.HasPrefix(got.kind, "text/event-stream") || len(tokens) != streamed || got.lines[len(got.lines)-1].text != "data: [DONE]" {
		c.t.Errorf("%s streams %v, want %d tokens and [DONE]", gateway, got, streamed)
		return nil
	}
	return tokens
}

// answer is what the client's probe printed.
type answer struct {
	status, kind string
	lines        []answerLine
}

type answerLine struct {
	at   int // milliseconds
	text string
}

func (a answer) body() string {
	var texts []string
	for _, line := range a.lines {
		texts = append(texts, line.text)
	}
	return strings.Join(texts, "\n")
}

// post sends a body from the client's pod; without one it gets.
func (c *localCluster) post(url, body string) answer {
	c.t.Helper()
	out := c.kubectl("exec", "-n", stackNamespace, "client", "--", image.Binary, "post", url, body)
	head, rest, _ := strings.Cut(out, "\n")
	var got answer
	got.status, got.kind, _ = strings.Cut(head, " ")
	for line := range strings.Lines(rest) {
		at, text, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		millis, err := strconv.Atoi(at)
		if err != nil {
			c.t.Fatalf("%s answered %q", url, out)
		}
		got.lines = append(got.lines, answerLine{millis, text})
	}
	return got
}

var successes = regexp.MustCompile(`(?m)^vllm:request_success_total\{[^}]*finish_reason="(\w+)"[^}]*\} (\d+)`)

// served is how many requests the pods of a stage have ended for a reason.
func (c *localCluster) served(component, reason string) int {
	c.t.Helper()
	sum := 0
	for _, pod := range c.pods(component) {
		text := c.kubectl("get", "--raw", "/api/v1/namespaces/"+stackNamespace+"/pods/"+pod.name+":8000/proxy/metrics")
		for _, match := range successes.FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(match[2])
			if err != nil {
				c.t.Fatal(err)
			}
			if match[1] == reason {
				sum += n
			}
		}
	}
	return sum
}

// decoded is a JSON text.
func decoded[T any](c *localCluster, text string) T {
	c.t.Helper()
	var value T
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		c.t.Fatalf("%v: %s", err, text)
	}
	return value
}
