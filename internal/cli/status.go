package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/cli/status"
)

func newStatus(streams Streams) *cobra.Command {
	asked := statusQuestion{connect: &connection{}}
	watch := false
	command := &cobra.Command{
		Use:   "status [KIND/NAME]",
		Short: "Show resources down to their pods, and what is wrong",
		Long: "Show the resources that Slipway runs, or one of them down to its pods, with what\n" +
			"is wrong, the way out and the next command. It only reads. With --watch it shows\n" +
			"them again whenever something has changed, until Ctrl-C.",
		Example: "  slipway status\n  slipway status llmdeployment/chat-service -n team --watch\n  slipway status -A -o yaml",
		Args:    cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(asked.output, "wide", "yaml", "json"); err != nil {
				return err
			}
			if watch && asked.asData() {
				return fmt.Errorf("--watch shows a view for people, and --output %s is for programs; leave out one of them", asked.output)
			}
			asked.target.Words = args
			if watch {
				return asked.watch(cmd.Context(), streams)
			}
			return asked.once(cmd.Context(), streams)
		},
	}
	asked.connect.register(command)
	flags := command.Flags()
	flags.BoolVarP(&asked.target.AllNamespaces, "all-namespaces", "A", false, "look in every namespace")
	flags.StringVarP(&asked.output, "output", "o", "", "wide, yaml or json")
	flags.BoolVarP(&watch, "watch", "w", false, "show the status again whenever it changes, until Ctrl-C")
	return command
}

// statusQuestion is what the command line asks for.
type statusQuestion struct {
	connect *connection
	target  status.Target
	output  string
}

func (q *statusQuestion) asData() bool { return q.output == "yaml" || q.output == "json" }

// once shows the status as it is.
func (q *statusQuestion) once(ctx context.Context, streams Streams) error {
	config, reader, err := q.open()
	if err != nil {
		return err
	}
	reader.Notice = func(err error) { fmt.Fprintf(streams.Err, "note: %s\n", oneLine(err)) }
	answer, err := reader.Ask(ctx, q.target)
	if err != nil {
		return explainConnection(config, err)
	}
	switch {
	case q.asData() && answer.Tree != nil:
		return printAs(streams.Out, q.output, answer.Tree)
	case q.asData():
		return printAs(streams.Out, q.output, map[string]any{"items": append([]*status.Node{}, answer.Flat...)})
	case answer.Tree == nil && len(answer.Flat) == 0:
		_, err := io.WriteString(streams.Err, q.nothing())
		return err
	}
	return q.print(streams.Out, answer, q.style(streams.Out))
}

// watch shows the status whenever it changes, until ctx ends.
func (q *statusQuestion) watch(ctx context.Context, streams Streams) error {
	config, reader, err := q.open()
	if err != nil {
		return err
	}
	server, err := metadata.NewForConfig(config)
	if err != nil {
		return explainConnection(config, err)
	}
	// Without a logger, controller-runtime complains after half a minute, and
	// client-go into the view when a watch ends.
	log.SetLogger(logr.Discard())
	ctx = klog.NewContext(ctx, logr.Discard())
	notes := ""
	reader.Notice = func(err error) { notes += "\nnote: " + oneLine(err) + "\n" }
	shown := newView(streams.Out)
	err = reader.Watch(ctx, server, q.target, func(answer status.Answer, err error) error {
		said := notes
		notes = ""
		if err != nil {
			text := "error: " + oneLine(explainConnection(config, err)) + "\n"
			return shown.show(text, text)
		}
		style := q.style(streams.Out)
		text, err := q.text(answer, style)
		if err != nil {
			return err
		}
		style.Now = time.Time{}
		ageless, err := q.text(answer, style)
		if err != nil {
			return err
		}
		return shown.show(text+said, ageless+said)
	})
	return explainConnection(config, err)
}

// text is what people read of an answer.
func (q *statusQuestion) text(answer status.Answer, style status.Style) (string, error) {
	if answer.Tree == nil && len(answer.Flat) == 0 {
		return q.nothing(), nil
	}
	var text strings.Builder
	err := q.print(&text, answer, style)
	return text.String(), err
}

func (q *statusQuestion) print(out io.Writer, answer status.Answer, style status.Style) error {
	if answer.Tree != nil {
		return status.Print(out, answer.Tree, style)
	}
	return status.PrintFlat(out, answer.Flat, q.target.AllNamespaces, style)
}

// nothing is said where there is nothing to list.
func (q *statusQuestion) nothing() string {
	if q.target.AllNamespaces {
		return "There is nothing yet. Apply an LLMModel and an LLMDeployment to begin.\n"
	}
	return fmt.Sprintf("There is nothing in namespace %s. slipway status -A looks everywhere.\n", q.target.Namespace)
}

// style is how an answer is shown on a stream.
func (q *statusQuestion) style(out io.Writer) status.Style {
	style := status.Style{Colour: hasColour(out), Wide: q.output == "wide", Now: time.Now()}
	if file, is := out.(*os.File); is && term.IsTerminal(int(file.Fd())) {
		style.Width, _, _ = term.GetSize(int(file.Fd()))
	}
	return style
}

// open connects to the cluster.
func (q *statusQuestion) open() (*rest.Config, *status.Reader, error) {
	config, namespace, err := q.connect.open()
	if err != nil {
		return nil, nil, err
	}
	q.target.Namespace = namespace
	reader, err := statusReader(config)
	return config, reader, explainConnection(config, err)
}

func statusReader(config *rest.Config) (*status.Reader, error) {
	known, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(known)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	direct, err := client.New(config, client.Options{Mapper: mapper})
	if err != nil {
		return nil, err
	}
	return &status.Reader{Client: direct, Mapper: mapper, Now: time.Now}, nil
}

// checkOutput refuses a format that isn't among those that a command knows.
func checkOutput(output string, known ...string) error {
	if output == "" || slices.Contains(known, output) {
		return nil
	}
	last := len(known) - 1
	return fmt.Errorf("--output %q: write %s or %s", output, strings.Join(known[:last], ", "), known[last])
}

// printAs writes a value as YAML or JSON.
func printAs(out io.Writer, output string, value any) error {
	if output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// hasColour says whether a stream is a terminal that shows colours, and the user
// hasn't turned them off (no-color.org).
func hasColour(out io.Writer) bool {
	file, is := out.(*os.File)
	return is && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}
