package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/install"
)

func newUninstall(streams Streams) *cobra.Command {
	var target connection
	removal := install.Removal{Timeout: 2 * time.Minute}
	command := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the operator from the current cluster",
		Long: "Remove the operator's release from the current cluster. The definitions of the\n" +
			"kinds stay, and so does every resource; it is refused while there are resources\n" +
			"that need the operator, because nothing would look after them or let them be\n" +
			"deleted.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown := newSteps(streams.Err)
			defer shown.clear()
			installer, explain, err := target.installer(shown)
			if err != nil {
				return err
			}
			stays, err := installer.Uninstall(cmd.Context(), removal)
			if err != nil {
				return explain(err)
			}
			shown.clear()
			for _, line := range stays {
				fmt.Fprintln(streams.Err, line)
			}
			return nil
		},
	}
	target.registerWithNamespace(command, install.Namespace)
	flags := command.Flags()
	flags.BoolVar(&removal.DeleteDefinitions, "delete-crds", false, "delete the definitions of the kinds too, once no resource is left")
	flags.BoolVar(&removal.Force, "force", false, "remove the operator although resources need it; they stay, unattended")
	flags.DurationVar(&removal.Timeout, "timeout", removal.Timeout, "how long the removal may take")
	return command
}
