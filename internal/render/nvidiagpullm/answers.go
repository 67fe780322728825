package nvidiagpullm

import (
	"fmt"
	"strings"
	"unicode/utf8"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/object"
)

// MaxAnswer bounds an answer in the ConfigMap, in bytes: 64 of them, with their
// prompts' beginnings, stay below the 1 MiB that an object may have.
const MaxAnswer = 12 << 10

const (
	maxPromptKept   = 2 << 10
	maxPromptShown  = 256
	maxAnswerShown  = 1024
	answersRunKey   = "run"
	incompleteNote  = "incomplete"
	answerKeyFormat = "%02d-answer"
)

// Answer is what a model said to a prompt.
type Answer struct {
	Text string
	// Incomplete says why the answer ends where it does; empty when it is whole.
	Incomplete string
}

// Run names a run of the prompts: other prompts or another model are another run,
// and a restart is the same.
func Run(r *infrav1.NvidiaGpuLlm) string {
	prompts := []any{}
	for _, prompt := range r.Spec.Prompts {
		prompts = append(prompts, prompt)
	}
	return object.Hash(map[string]any{"model": Model(r), "prompts": prompts}).String()
}

// answerFiles are the files of the ConfigMap: for each prompt the prompt, the
// answer, and why it is incomplete where it is.
func answerFiles(in Input) map[string]string {
	files := map[string]string{answersRunKey: Run(in.Resource)}
	for i, answer := range in.Answers {
		if i >= len(in.Resource.Spec.Prompts) {
			break
		}
		files[fmt.Sprintf("%02d-prompt", i+1)] = bound(in.Resource.Spec.Prompts[i], maxPromptKept)
		files[fmt.Sprintf(answerKeyFormat, i+1)] = bound(answer.Text, MaxAnswer)
		if answer.Incomplete != "" {
			files[fmt.Sprintf("%02d-%s", i+1, incompleteNote)] = answer.Incomplete
		}
	}
	return files
}

// AnswersOf reads the answers of the resource's run back from a ConfigMap's data;
// none when they are of another run.
func AnswersOf(r *infrav1.NvidiaGpuLlm, files map[string]string) []Answer {
	if files[answersRunKey] != Run(r) {
		return nil
	}
	var answers []Answer
	for i := range r.Spec.Prompts {
		text, there := files[fmt.Sprintf(answerKeyFormat, i+1)]
		if !there {
			break
		}
		answers = append(answers, Answer{Text: text, Incomplete: files[fmt.Sprintf("%02d-%s", i+1, incompleteNote)]})
	}
	return answers
}

// Shown are the answers as the status holds them, in short.
func Shown(r *infrav1.NvidiaGpuLlm, answers []Answer) []infrav1.PromptAnswer {
	var shown []infrav1.PromptAnswer
	for i, answer := range answers {
		if i >= len(r.Spec.Prompts) {
			break
		}
		short := bound(answer.Text, maxAnswerShown)
		incomplete := answer.Incomplete
		if incomplete == "" && short != answer.Text {
			incomplete = "the whole is in ConfigMap " + AnswersName(r)
		}
		shown = append(shown, infrav1.PromptAnswer{
			Prompt: bound(r.Spec.Prompts[i], maxPromptShown), Answer: short, Incomplete: incomplete,
		})
	}
	return shown
}

// bound cuts a text to at most limit bytes, between characters.
func bound(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
