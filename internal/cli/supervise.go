package cli

import (
	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/cluster"
)

// newSupervise is what `slipway up` leaves running: no command for people.
func newSupervise() *cobra.Command {
	return &cobra.Command{
		Use:    "cluster-supervisor DIR",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cluster.Supervise(cmd.Context(), args[0])
		},
	}
}

// newNode is the first process of a node's namespaces: no command for people.
func newNode() *cobra.Command {
	return &cobra.Command{
		Use:    "cluster-node FACTS",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cluster.RunNode(cmd.Context(), args[0])
		},
	}
}
