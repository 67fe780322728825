package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/simulator"
)

// newSimulator hands its arguments on unparsed: they follow vLLM's argparse,
// which differs from what cobra reads.
func newSimulator(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "simulator --model NAME [flags]",
		Short: "Serve a simulated model with vLLM's HTTP API",
		Long: "Serve a simulated model with vLLM's HTTP API and the command line of\n" +
			"llm-d-inference-sim. No weights are loaded; answers come at the pace that the\n" +
			"latency flags set.",
		DisableFlagParsing: true,
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		config, err := simulator.Load(args, os.Getenv)
		if errors.Is(err, simulator.ErrHelp) {
			_, err = fmt.Fprintf(streams.Out, "%s\n\nUsage:\n  %s\n\n%s", command.Long, command.UseLine(), simulator.Help())
			return err
		}
		if err != nil {
			return err
		}
		return simulator.Run(command.Context(), config, simulator.Options{Clock: simulator.SystemClock{}, Log: streams.Err})
	}
	return command
}
