package ollama

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLayersAreAddedUp(t *testing.T) {
	stream := `{"status":"pulling manifest"}
{"status":"pulling aa","digest":"sha256:aa","total":1000}
{"status":"pulling aa","digest":"sha256:aa","total":1000,"completed":250}

{"status":"pulling aa","digest":"sha256:aa","total":1000,"completed":1000}
{"status":"pulling bb","digest":"sha256:bb","total":10,"completed":5}
{"status":"pulling aa","digest":"sha256:aa","total":1000,"completed":900}
{"status":"pulling bb","digest":"sha256:bb","total":10,"completed":10}
{"status":"pulling aa","digest":"sha256:aa","total":1000,"completed":1000}
{"status":"verifying sha256 digest"}
{"status":"success"}
{"status":"what comes after isn't read"}
`
	var percents []int
	var last Progress
	err := readPull(strings.NewReader(stream), func(p Progress) {
		percents = append(percents, p.Percent())
		last = p
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []int{0, 0, 25, 99, 99, 89, 90, 99, 99, 100}
	if len(percents) != len(want) {
		t.Fatalf("%d reports: %v", len(percents), percents)
	}
	for i := range want {
		if percents[i] != want[i] {
			t.Errorf("the percentages are %v, want %v", percents, want)
			break
		}
	}
	if last != (Progress{Status: "success", Completed: 1010, Total: 1010, Done: true}) {
		t.Errorf("the last report is %+v", last)
	}
}

func TestStreamsThatEndBadly(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		kind   error
		said   string
	}{
		"nothing":             {"", io.ErrUnexpectedEOF, ""},
		"no success":          {`{"status":"verifying sha256 digest"}`, io.ErrUnexpectedEOF, ""},
		"no JSON":             {"<html>", ErrServer, "no JSON"},
		"no object":           {"[1]\n", ErrServer, "no JSON"},
		"another shape":       {`{"status":7}`, ErrServer, "isn't understood"},
		"a line without end":  {`{"status":"` + strings.Repeat("x", maxLineBytes), ErrServer, "a line of more than"},
		"a failure":           {`{"status":"pulling manifest"}` + "\n" + `{"error":"something new"}`, ErrServer, "something new"},
		"a failure of a kind": {`{"error":"write /root/.ollama/x: no space left on device"}`, ErrNoSpace, "no space left"},
		"a failure of a GPU":  {`{"error":"llama runner process has terminated: cudaMalloc failed: out of memory"}`, ErrNoMemory, "cudaMalloc"},
		"the system's killer": {`{"error":"llama runner process has terminated: signal: killed"}`, ErrNoMemory, "killed"},
	} {
		err := readPull(strings.NewReader(test.stream), func(Progress) {})
		if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.said) {
			t.Errorf("%s: got %v, want %v that says %q", name, err, test.kind, test.said)
		}
		if strings.ContainsRune(err.Error(), '\n') || len(err.Error()) > 2*maxSaid {
			t.Errorf("%s: the error isn't one short line: %q", name, err)
		}
	}
}

func TestAnswersAreCutAtCharacters(t *testing.T) {
	stream := `{"response":"Häf"}` + "\n" + `{"response":"en"}` + "\n" + `{"done":true,"done_reason":"stop","eval_count":9}`
	for limit, want := range map[int]Answer{
		1: {"H", true, 1}, 2: {"H", true, 1}, 3: {"Hä", true, 1}, 4: {"Häf", true, 2},
		6: {"Häfen", false, 9},
	} {
		if got, err := readAnswer(strings.NewReader(stream), limit); err != nil || got != want {
			t.Errorf("%d bytes: got %+v, %v; want %+v", limit, got, err, want)
		}
	}
	got, err := readAnswer(strings.NewReader(`{"response":"half"}`), 100)
	if !errors.Is(err, io.ErrUnexpectedEOF) || got.Text != "half" || !got.Truncated {
		t.Errorf("a stream that breaks off gives %+v, %v", got, err)
	}
}

func TestTheSameFailureReadsTheSame(t *testing.T) {
	for in, want := range map[string]string{
		`read tcp 10.0.0.7:43210->10.0.0.1:443: read: connection reset by peer`: "read tcp 10.0.0.1:443: read: connection reset by peer",
		"read udp [fd00::7]:43210->[fd00::1]:53: i/o timeout":                   "read udp [fd00::1]:53: i/o timeout",
		`Get "https://ollama.com/token?nonce=ab_c&ts=17": EOF`:                  `Get "https://ollama.com/token": EOF`,
		"two\n lines ":           "two lines",
		"ends \xff badly":        "ends ? badly",
		strings.Repeat("ä", 200): strings.Repeat("ä", 150) + " …",
	} {
		if got := tidy(in); got != want {
			t.Errorf("tidy(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzPull holds that no stream makes a report that isn't one.
func FuzzPull(f *testing.F) {
	f.Add([]byte(`{"status":"pulling aa","digest":"sha256:aa","total":1000,"completed":250}` + "\n" + `{"status":"success"}`))
	f.Add([]byte(`{"digest":"a","total":-1,"completed":9223372036854775807}` + "\n" + `{"digest":"b","total":9223372036854775807}`))
	f.Add([]byte(`{"error":"pull model manifest: file does not exist"}`))
	f.Add([]byte("null\n{}\n[]"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		err := readPull(strings.NewReader(string(stream)), func(p Progress) {
			if percent := p.Percent(); percent < 0 || percent > 100 || percent == 100 != p.Done {
				t.Errorf("%+v is %d%%", p, percent)
			}
			if p.Completed < 0 || p.Total < p.Completed || !utf8.ValidString(p.Status) {
				t.Errorf("the progress is %+v", p)
			}
		})
		if err != nil && strings.ContainsRune(err.Error(), '\n') {
			t.Errorf("an error of several lines: %q", err)
		}
	})
}

// FuzzAnswer holds that an answer is text within its bound.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"response":"Häfen"}`+"\n"+`{"done":true,"done_reason":"length","eval_count":9}`), 3)
	f.Add([]byte(`{"response":"\ud800"}`), 1)
	f.Fuzz(func(t *testing.T, stream []byte, limit int) {
		limit = max(1, limit)
		answer, err := readAnswer(strings.NewReader(string(stream)), limit)
		if len(answer.Text) > limit || !utf8.ValidString(answer.Text) {
			t.Errorf("%q for at most %d bytes", answer.Text, limit)
		}
		if err != nil && !answer.Truncated {
			t.Errorf("whole in spite of %v", err)
		}
	})
}

func TestAnswersToRequestsThatFail(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   any
		kind   error
		text   string
	}{
		"no such model":      {404, map[string]string{"error": "model 'x' not found"}, ErrModelNotFound, "there is no such model: model 'x' not found"},
		"no such page":       {404, nil, ErrServer, "the Ollama server failed: it has no /api/x"},
		"an invalid request": {400, map[string]string{"error": "json: …"}, ErrRefused, "the model is refused: json: …"},
		"no text":            {500, map[string]string{}, ErrServer, "the Ollama server failed: {}"},
		"nothing":            {500, nil, ErrServer, "the Ollama server failed: status 500"},
		"a proxy before it":  {503, nil, ErrUnreachable, "the Ollama server doesn't answer: status 503"},
		"a full disk":        {500, map[string]string{"error": "write x: no space left on device"}, ErrNoSpace, "there is no space for the model: write x: no space left on device"},
	} {
		var body []byte
		if test.body != nil {
			var err error
			if body, err = json.Marshal(test.body); err != nil {
				t.Fatal(err)
			}
		}
		err := refused("/api/x", test.status, body)
		if !errors.Is(err, test.kind) || err.Error() != test.text {
			t.Errorf("%s: got %v, want %q", name, err, test.text)
		}
	}
}
