package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slipway-dev/slipway/internal/cli/chat"
	"github.com/slipway-dev/slipway/internal/cli/tunnel"
)

func newChat(streams Streams) *cobra.Command {
	var message string
	var cluster connection
	session := &chat.Session{Out: streams.Out, Err: streams.Err}
	command := &cobra.Command{
		Use:   "chat NAME",
		Short: "Talk to a deployed model",
		Long: "Talk to the model of NAME, a LLMDeployment, SimulatorDeployment or NvidiaGpuLlm,\n" +
			"through the cluster's API server.\n" +
			"The answer is printed word by word. Without --message, each line of standard\n" +
			"input is a message of one conversation; Ctrl-D ends it.",
		Example: "  slipway chat chat-service --message \"Hello!\"\n" +
			"  slipway chat chat-service -n team-a",
		Args: cobra.ExactArgs(1),
	}
	flags := command.Flags()
	flags.StringVar(&message, "message", "", "say this and end, instead of a conversation")
	flags.Int64Var(&session.MaxTokens, "max-tokens", 0, "the most tokens of an answer (0: the model decides)")
	cluster.register(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		if session.MaxTokens < 0 {
			return fmt.Errorf("--max-tokens is %d; it must be 0 or more", session.MaxTokens)
		}
		if command.Flags().Changed("message") && message == "" {
			return errors.New("--message is empty; say something, or leave it out for a conversation")
		}
		session.Connect = connectTo(args[0], &cluster)
		if message != "" {
			return session.Ask(command.Context(), message)
		}
		return session.Converse(command.Context(), streams.In, promptFor(streams))
	}
	return command
}

// promptFor returns the prompt of a session: none where nobody types.
func promptFor(streams Streams) string {
	if file, ok := streams.In.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return "> "
	}
	return ""
}

// connectTo returns what connects to the longest ready pod of what has that name.
func connectTo(name string, cluster *connection) func(context.Context) (*chat.Client, error) {
	return func(ctx context.Context) (*chat.Client, error) {
		config, namespace, err := cluster.open()
		if err != nil {
			return nil, err
		}
		target, err := tunnel.Find(ctx, config, namespace, name)
		if err != nil {
			return nil, explainConnection(config, err)
		}
		address, end, err := tunnel.Open(ctx, config, target)
		if err != nil {
			return nil, explainConnection(config, err)
		}
		return &chat.Client{HTTP: &http.Client{Transport: &http.Transport{}}, BaseURL: address, Close: end}, nil
	}
}
