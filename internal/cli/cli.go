// Package cli is the command line: one file per subcommand, each of which
// parses, calls an engine and prints. It holds no logic of its own.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Streams are the standard streams of a command. Results go to Out; progress,
// notices and errors go to Err.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// exitError ends the program with a code and prints nothing more: the command
// that was run in the user's place has said what there was to say.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// Main runs the command line and returns the process's exit code: 0, or 1 with
// one line on standard error that says what to do.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	streams := Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	root := newRoot(streams)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	default:
		fmt.Fprintf(streams.Err, "error: %s\n", oneLine(err))
		return 1
	}
}

// newRoot lists every subcommand.
func newRoot(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "slipway",
		Short:         "Serve large language models on Kubernetes",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.AddCommand(
		newUp(streams),
		newDown(streams),
		newKubeconfig(streams),
		newKubectl(streams),
		newSupervise(),
		newNode(),
		newChat(streams),
		newSimulator(streams),
		newOperator(streams),
		newPlan(streams),
		newStatus(streams),
		newBundle(streams),
		newCharts(streams),
		newStack(streams),
		newInstall(streams),
		newUninstall(streams),
		newVersion(streams),
	)
	return root
}

// oneLine folds an error's text into one line, as a terminal's user reads it.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
