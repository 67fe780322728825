package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/cluster"
)

func newDown(streams Streams) *cobra.Command {
	name, node := "", ""
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End the local Kubernetes and remove all that is left of it",
		Long: `End the local Kubernetes and remove all that is left of it: processes, mounts,
interfaces, control groups, volumes and files. What was compiled stays in the
cache. With --node, only that node ends, as if its machine had lost power;
"slipway up" starts it again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if node != "" {
				if err := cluster.StopNode(cmd.Context(), name, node); err != nil {
					return err
				}
				_, err := fmt.Fprintf(streams.Err, "%s of the cluster %s is stopped; slipway up starts it again\n", node, name)
				return err
			}
			err := cluster.Down(cmd.Context(), name)
			if errors.Is(err, cluster.ErrNoCluster) {
				_, err := fmt.Fprintf(streams.Err, "there is no cluster %s\n", name)
				return err
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Err, "cluster %s is gone\n", name)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", cluster.DefaultName, "name of the cluster")
	cmd.Flags().StringVar(&node, "node", "", "end this node alone, for example node-2")
	return cmd
}
