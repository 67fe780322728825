package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/cluster"
)

func newKubeconfig(streams Streams) *cobra.Command {
	name := ""
	cmd := &cobra.Command{
		Use:     "kubeconfig",
		Short:   "Print the path of the local Kubernetes' kubeconfig",
		Example: `  export KUBECONFIG=$(slipway kubeconfig)`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := cluster.Kubeconfig(name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(streams.Out, path)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", cluster.DefaultName, "name of the cluster")
	return cmd
}
