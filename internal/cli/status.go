package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/cli/status"
)

func newStatus(streams Streams) *cobra.Command {
	var target status.Target
	var output string
	connect := &connection{}
	command := &cobra.Command{
		Use:   "status [KIND/NAME]",
		Short: "Show resources down to their pods, and what is wrong",
		Long: "Show the resources that Slipway runs, or one of them down to its pods, with what\n" +
			"is wrong, the way out and the next command. It only reads.",
		Example: "  slipway status\n  slipway status llmdeployment/chat-service -n team\n  slipway status -A -o yaml",
		Args:    cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			config, namespace, err := connect.open()
			if err != nil {
				return err
			}
			reader, err := statusReader(streams, config)
			if err != nil {
				return explainConnection(config, err)
			}
			target.Words, target.Namespace = args, namespace
			answer, err := reader.Ask(cmd.Context(), target)
			if err != nil {
				return explainConnection(config, err)
			}
			return printStatus(streams, answer, target, output)
		},
	}
	connect.register(command)
	command.Flags().BoolVarP(&target.AllNamespaces, "all-namespaces", "A", false, "look in every namespace")
	command.Flags().StringVarP(&output, "output", "o", "", "yaml or json")
	return command
}

func statusReader(streams Streams, config *rest.Config) (*status.Reader, error) {
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
	return &status.Reader{
		Client: direct, Mapper: mapper, Now: time.Now,
		Notice: func(err error) { fmt.Fprintf(streams.Err, "note: %s\n", oneLine(err)) },
	}, nil
}

func printStatus(streams Streams, answer status.Answer, target status.Target, output string) error {
	style := status.Style{Colour: hasColour(streams.Out)}
	switch {
	case output != "" && answer.Tree != nil:
		return printAs(streams.Out, output, answer.Tree)
	case output != "":
		return printAs(streams.Out, output, map[string]any{"items": append([]*status.Node{}, answer.Flat...)})
	case answer.Tree != nil:
		return status.Print(streams.Out, answer.Tree, style)
	case len(answer.Flat) == 0 && target.AllNamespaces:
		_, err := fmt.Fprintln(streams.Err, "There is nothing yet. Apply an LLMModel and an LLMDeployment to begin.")
		return err
	case len(answer.Flat) == 0:
		_, err := fmt.Fprintf(streams.Err, "There is nothing in namespace %s. slipway status -A looks everywhere.\n", target.Namespace)
		return err
	default:
		return status.PrintFlat(streams.Out, answer.Flat, target.AllNamespaces, style)
	}
}

// checkOutput refuses a format that printAs doesn't know.
func checkOutput(output string) error {
	switch output {
	case "", "yaml", "json":
		return nil
	}
	return fmt.Errorf("--output %q: write yaml or json", output)
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
