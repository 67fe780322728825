package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/slipway-dev/slipway/internal/registry"
)

// hookMark is the annotation that makes a template a hook, which the SDK keeps apart
// from what it renders; templateMark takes its place while it does. They are of one
// length, so that nothing else in the file changes.
const (
	hookMark     = "helm.sh/hook"
	templateMark = "unhk.sh/hook"
)

// hooksAsTemplates is a chart's archive in which hooks are templates like any other,
// so that a review sees them and their images are listed: a job that a hook runs
// needs its image in a cluster without a network as much as a Deployment does.
func hooksAsTemplates(archive registry.Archive) ([]byte, error) {
	return rewrite(fmt.Sprintf("chart %s %s", archive.Name, archive.Version), archive.Data)
}

func rewrite(what string, data []byte) ([]byte, error) {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	writer := tar.NewWriter(zipped)
	err := registry.Unpack(what, data, registry.Limits{}, func(file registry.File) error {
		content := file.Data
		switch {
		case path.Ext(file.Name) == ".tgz" && path.Base(path.Dir(file.Name)) == "charts":
			inner, err := rewrite(what, content)
			if err != nil {
				return err
			}
			content = inner
		case strings.Contains(file.Name, "/templates/"):
			content = bytes.ReplaceAll(content, []byte(hookMark), []byte(templateMark))
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.Name, Mode: 0o644, Size: int64(len(content))}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		_, err := writer.Write(content)
		return err
	})
	if err := errors.Join(err, writer.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
