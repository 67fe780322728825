package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/cli/bundle"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/registry/auth"
	source "github.com/slipway-dev/slipway/internal/registry/bundle"
	"github.com/slipway-dev/slipway/internal/registry/signature"
)

func newBundle(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "bundle",
		Short: "Turn operators that ship as OLM bundles into manifests or Helm charts",
	}
	command.AddCommand(newExtract(streams), newBundleChart(streams), newBundleUpdate(streams))
	return command
}

// trust is how bundles are fetched: with whose credentials, and signed by whom.
type trust struct{ authFile, keyFile string }

// register adds the flags to a command.
func (f *trust) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.authFile, "auth-file", "", "file of credentials for registries (default: those of podman and docker)")
	flags.StringVar(&f.keyFile, "key", "", "file of a public key, such as cosign.pub; the image must be signed with it")
}

// maxKeyFile is far above what a public key has, in bytes.
const maxKeyFile = 1 << 20

// key reads the public key, nil if there is none.
func (f *trust) key() (*signature.Key, error) {
	if f.keyFile == "" {
		return nil, nil
	}
	file, err := os.Open(f.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--key %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("--key %w", err)
	}
	key, err := signature.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("--key %s: %w", f.keyFile, err)
	}
	return key, nil
}

// maker makes a maker that logs in with the user's credentials.
func (f *trust) maker(streams Streams) (bundle.Maker, error) {
	key, err := f.key()
	if err != nil {
		return bundle.Maker{}, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	finder := auth.Finder{File: f.authFile, Getenv: os.Getenv, Home: home}
	return bundle.Maker{
		Source:   source.Source{Registry: registry.New(registry.Options{Now: time.Now}), Credentials: finder.Find, Key: key},
		Progress: streams.Err,
		Now:      time.Now,
	}, nil
}

// registerBundle adds the flags that say what is made of a bundle.
func registerBundle(command *cobra.Command, request *bundle.Request, from *trust) {
	flags := command.Flags()
	flags.StringArrayVar(&request.Exclude, "exclude", nil, "leave out the objects for which this jq expression is true; may be repeated")
	flags.StringSliceVar(&request.Watch, "watch-namespace", nil, "namespace that the operator looks after, '*' for all, '.' for its own; may be repeated (default: all, if the bundle supports that)")
	from.register(command)
}

const referenceHelp = "REF is an image in a registry (registry/path:tag or registry/path@sha256:…), an OCI\n" +
	"layout, an archive that docker save or podman save wrote, or a directory with\n" +
	"manifests/ in it. Credentials are those that podman login and docker login keep."

func newExtract(streams Streams) *cobra.Command {
	var request bundle.Request
	var from trust
	var output, dir string
	command := &cobra.Command{
		Use:   "extract REF -n NAMESPACE",
		Short: "Write the objects that OLM would create of a bundle",
		Long: "Write the objects that OLM would create of a bundle, in the order of applying, as\n" +
			"YAML, as JSON, or as one file for each in a directory. Some definitions are too\n" +
			"large for kubectl apply; add --server-side.\n\n" + referenceHelp,
		Example: "  slipway bundle extract registry.redhat.io/leader-worker-set/lws-operator-bundle:1.0 \\\n" +
			"    -n openshift-lws-operator | kubectl apply --server-side -f -\n" +
			"  slipway bundle extract ./bundle.tar -n sail --exclude '.kind == \"ConsoleCLIDownload\"' --output-dir manifests",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Reference = args[0]
			output, err := extractOutput(output, dir)
			if err != nil {
				return err
			}
			if request.Namespace == "" {
				return errors.New("say which namespace the operator is for with -n")
			}
			maker, err := from.maker(streams)
			if err != nil {
				return err
			}
			objects, err := maker.Extract(cmd.Context(), request)
			if err != nil {
				return err
			}
			switch output {
			case "json":
				return bundle.WriteJSON(streams.Out, objects)
			case "dir":
				if err := bundle.WriteDirectory(dir, objects); err != nil {
					return err
				}
				fmt.Fprintf(streams.Err, "the objects are in %s; apply them with: kubectl apply --server-side -f %s\n", dir, dir)
				return nil
			default:
				return bundle.WriteYAML(streams.Out, objects)
			}
		},
	}
	registerBundle(command, &request, &from)
	flags := command.Flags()
	flags.StringVarP(&request.Namespace, "namespace", "n", "", "namespace that the operator runs in")
	flags.BoolVar(&request.CreateNamespace, "create-namespace", false, "write the namespace, too")
	flags.StringVar(&request.Certificates, "certificates", bundle.CertManager, "who makes the certificates of webhooks: cert-manager or self-signed")
	flags.StringVarP(&output, "output", "o", "", "yaml, json or dir (default: yaml, or dir with --output-dir)")
	flags.StringVar(&dir, "output-dir", "", "directory for one file for each object")
	return command
}

// extractOutput is the form of the output.
func extractOutput(output, dir string) (string, error) {
	if err := checkOutput(output, "yaml", "json", "dir"); err != nil {
		return "", err
	}
	switch {
	case output == "dir" && dir == "":
		return "", errors.New("-o dir needs a directory; name it with --output-dir")
	case dir != "" && output != "" && output != "dir":
		return "", fmt.Errorf("--output-dir is for -o dir; leave it out, or write -o dir in place of -o %s", output)
	case dir != "":
		return "dir", nil
	}
	return output, nil
}

func newBundleChart(streams Streams) *cobra.Command {
	var request bundle.Request
	var from trust
	var dir string
	command := &cobra.Command{
		Use:   "chart REF -o DIR",
		Short: "Write a bundle as a Helm chart",
		Long: "Write a bundle as a Helm chart that renders to what slipway bundle extract writes for\n" +
			"the release's namespace. Images, pull secrets, resources, node selectors and\n" +
			"tolerations are values. Definitions are in crds/. Who makes the certificates of\n" +
			"webhooks is the value certificates.\n\n" + referenceHelp,
		Example: "  slipway bundle chart registry.redhat.io/leader-worker-set/lws-operator-bundle:1.0 -o lws-operator-chart\n" +
			"  helm install lws-operator ./lws-operator-chart -n openshift-lws-operator --create-namespace",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Reference = args[0]
			if dir == "" {
				return errors.New("say which directory the chart goes to with -o")
			}
			maker, err := from.maker(streams)
			if err != nil {
				return err
			}
			if err := maker.Chart(cmd.Context(), request, dir); err != nil {
				return err
			}
			fmt.Fprintf(streams.Err, "the chart is in %s; install it with: helm install NAME %s -n NAMESPACE --create-namespace\n", dir, dir)
			return nil
		},
	}
	registerBundle(command, &request, &from)
	command.Flags().StringVarP(&dir, "output", "o", "", "directory to write to; it must be empty or not there")
	command.Flags().StringVar(&request.Certificates, "certificates", bundle.CertManager, "who makes the certificates of webhooks, unless the chart's value of this name says it: cert-manager, self-signed or provided")
	return command
}

func newBundleUpdate(streams Streams) *cobra.Command {
	var update bundle.Update
	var from trust
	command := &cobra.Command{
		Use:   "update DIR [VERSION]",
		Short: "Bring a chart that slipway bundle chart wrote up to date with another version of its bundle",
		Long: "Bring a chart that slipway bundle chart wrote up to date with another version of its\n" +
			"bundle, and show what that changes: images, permissions, and fields of definitions\n" +
			"that were removed or narrowed. Changes in values.yaml and files of your own stay.\n" +
			"VERSION is a tag, or a digest sha256:…; --from names another bundle in its place.\n" +
			"If a version of a definition is gone in which objects are stored, nothing is written.",
		Example: "  slipway bundle update ./sail-operator-chart 3.3.0 --dry-run\n  slipway bundle update ./sail-operator-chart --from ./bundle.tar",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			update.Dir = args[0]
			if len(args) == 2 {
				update.Version = args[1]
			}
			if (update.Version == "") == (update.Reference == "") {
				return errors.New("say what to update to: a version after the directory, or a bundle with --from")
			}
			maker, err := from.maker(streams)
			if err != nil {
				return err
			}
			updated, err := maker.Update(cmd.Context(), update)
			if updated.To != "" {
				updated.Print(streams.Out)
			}
			if err != nil {
				return err
			}
			if update.DryRun {
				fmt.Fprintf(streams.Err, "nothing was written\n")
				return nil
			}
			fmt.Fprintf(streams.Err, "%s is updated; before helm upgrade, run: kubectl apply --server-side -f %s/crds/\n", update.Dir, update.Dir)
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&update.Reference, "from", "", "bundle to update to, such as a directory or a .tar")
	flags.BoolVar(&update.DryRun, "dry-run", false, "show what would change, and write nothing")
	from.register(command)
	return command
}
