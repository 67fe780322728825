package helm

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"
)

// Chart is a chart held in memory. It is never changed, whatever is rendered from
// it.
type Chart struct {
	chart *chart.Chart
	// archive is what the chart is read from anew for each action, since the SDK
	// changes a chart that it renders; nil for one of Load's.
	archive []byte
}

// LoadArchive reads a chart from a packed archive (.tgz), which it keeps. It
// bounds nothing: whoever fetched the archive did. Keep the chart for as long as
// its digest is the same, rather than read it at each reconcile.
func LoadArchive(archive []byte) (*Chart, error) {
	loaded, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("read the chart's archive: %w", err)
	}
	return &Chart{chart: loaded, archive: archive}, nil
}

// Load reads the chart in the directory dir of files.
func Load(files fs.FS, dir string) (*Chart, error) {
	list := []*archive.BufferedFile{}
	err := fs.WalkDir(files, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		list = append(list, &archive.BufferedFile{Name: strings.TrimPrefix(name, dir+"/"), Data: content})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the chart %s: %w", dir, err)
	}
	loaded, err := loader.LoadFiles(list)
	if err != nil {
		return nil, fmt.Errorf("read the chart %s: %w", dir, err)
	}
	return &Chart{chart: loaded}, nil
}

// fresh is the chart for one action of the SDK, which drops dependencies that are
// switched off and merges values into it.
func (c *Chart) fresh() (*chart.Chart, error) {
	if c.archive == nil {
		return nil, errors.New("only a chart of LoadArchive can be installed again and again")
	}
	return loader.LoadArchive(bytes.NewReader(c.archive))
}

// Digest is that of the chart's archive, sha256:…
func (c *Chart) Digest() string { return fmt.Sprintf("sha256:%x", sha256.Sum256(c.archive)) }

// CRDs are the documents of the chart's crds/, and of its dependencies', in
// their order.
func (c *Chart) CRDs() [][]byte {
	var files [][]byte
	for _, crd := range c.chart.CRDObjects() {
		files = append(files, crd.File.Data)
	}
	return files
}

// DefaultValues are those of the chart's values.yaml. They are not to be changed.
func (c *Chart) DefaultValues() map[string]any { return c.chart.Values }

// Name is the chart's name.
func (c *Chart) Name() string { return c.chart.Name() }

// Version is the chart's version.
func (c *Chart) Version() string { return c.chart.Metadata.Version }

// AppVersion is the version of what the chart installs.
func (c *Chart) AppVersion() string { return c.chart.AppVersion() }

// Set adds assignments written as `--set` takes them (a.b=c,d[0]=e) to values,
// the later ones winning.
func Set(values map[string]any, assignments []string) error {
	for _, assignment := range assignments {
		if err := strvals.ParseInto(assignment, values); err != nil {
			return fmt.Errorf("--set %s: %w; write it as name=value, such as image.tag=v1", assignment, err)
		}
	}
	return nil
}

// Lint checks the chart in the directory dir of files as `helm lint --strict`
// does. It writes the chart to a temporary directory, because the SDK's linter
// reads files, and removes it.
func Lint(files fs.FS, dir string, values map[string]any) (err error) {
	sub, err := fs.Sub(files, dir)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "slipway-lint-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	target := path.Join(temporary, path.Base(dir))
	if err := os.CopyFS(target, sub); err != nil {
		return err
	}
	linter := action.NewLint()
	linter.Strict = true
	return errors.Join(linter.Run([]string{target}, values).Errors...)
}
