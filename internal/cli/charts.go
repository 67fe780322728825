package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/cli/charts"
	"github.com/slipway-dev/slipway/internal/registry"
)

func newCharts(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "charts",
		Short: "Fetch the charts of llm-d for a cluster without a network, and for review",
	}
	command.AddCommand(newVendor(streams))
	return command
}

func newVendor(streams Streams) *cobra.Command {
	var files []string
	vendorer := &charts.Vendorer{Progress: streams.Err, Registry: registry.New(registry.Options{Now: time.Now})}
	command := &cobra.Command{
		Use:   "vendor [-f FILE] [-o DIR]",
		Short: "Fetch charts into a directory, render them, and list their images",
		Long: "Fetch the charts that an Llmd or DataScienceCluster asks for into a directory, from\n" +
			"which slipway operator --charts-dir takes them without a network. What they render\n" +
			"to with the values given is written beside them for review, and the images that it\n" +
			"refers to are printed, one on a line. ConfigMaps and Secrets that the resource\n" +
			"refers to stand in the same files. Without -f it is an Llmd of defaults.",
		Example: "  slipway charts vendor -f config/samples/components_v1alpha1_llmd.yaml -o charts\n" +
			"  slipway charts vendor -f llmd.yaml -f values.yaml | xargs -n1 my-mirror",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var manifests []*unstructured.Unstructured
			if len(files) > 0 {
				found, err := readManifests(streams.In, files)
				if err != nil {
					return err
				}
				manifests = found
			}
			input, err := charts.Input(manifests)
			if err != nil {
				return err
			}
			images, err := vendorer.Vendor(cmd.Context(), input)
			printImages(streams.Out, images)
			if err != nil {
				return err
			}
			fmt.Fprintf(streams.Err, "the charts are in %s, what they render to in %s\n", vendorer.Dir, filepath.Join(vendorer.Dir, charts.ManifestsDir))
			return nil
		},
	}
	flags := command.Flags()
	flags.StringArrayVarP(&files, "filename", "f", nil, "file of manifests, - for standard input; may be repeated")
	flags.StringVarP(&vendorer.Dir, "output", "o", "charts", "directory to write to")
	flags.StringVar(&vendorer.KubeVersion, "kube-version", "", "version of Kubernetes that charts are told, such as v1.36.0")
	return command
}

func printImages(out io.Writer, images []string) {
	for _, image := range images {
		fmt.Fprintln(out, image)
	}
}
