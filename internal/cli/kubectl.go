package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/cluster"
)

func newKubectl(Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--name CLUSTER] [--] ARGS...",
		Short: "Run kubectl against the local Kubernetes",
		Example: `  slipway kubectl get pods -A
  slipway kubectl --name gpus -- logs -f deploy/gpt-small-deployment`,
		// All flags but a leading --name are kubectl's.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, args, err := cutClusterName(args)
			if err != nil {
				return err
			}
			program, err := cluster.Kubectl(name)
			if err != nil {
				return err
			}
			kubeconfig, err := cluster.Kubeconfig(name)
			if err != nil {
				return err
			}
			argv := append([]string{"kubectl", "--kubeconfig", kubeconfig}, args...)
			if err := syscall.Exec(program, argv, os.Environ()); err != nil {
				return fmt.Errorf("run %s: %w", program, err)
			}
			return nil
		},
	}
}

// cutClusterName takes --name and -- from the front of kubectl's arguments.
func cutClusterName(args []string) (name string, rest []string, err error) {
	name = cluster.DefaultName
	if len(args) > 0 {
		value, inline := strings.CutPrefix(args[0], "--name=")
		switch {
		case inline:
			name, args = value, args[1:]
		case args[0] == "--name" && len(args) > 1:
			name, args = args[1], args[2:]
		case args[0] == "--name":
			return "", nil, fmt.Errorf("--name needs the name of a cluster")
		}
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return name, args, nil
}
