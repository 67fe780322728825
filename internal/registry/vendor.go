package registry

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// repositoryAnnotation says in an index which repository a vendored chart was fetched
// from. A chart without it stands for that of any repository.
const repositoryAnnotation = "slipway.dev/repository"

// Vendored is an archive, and the repository that it stands for.
type Vendored struct {
	Repository string
	Archive    Archive
}

// WriteVendored writes archives and an index.yaml into the directory dir, which is
// made if it isn't there: a repository that Options.Vendored takes, and Helm too. An
// index that is there is replaced; archives that it no longer names stay. The same
// archives give the same files.
func WriteVendored(dir string, charts []Vendored) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	index := indexFile{APIVersion: "v1", Entries: map[string][]indexEntry{}}
	for _, chart := range charts {
		at, err := locate(chart.Repository)
		if err != nil {
			return err
		}
		archive := chart.Archive
		// Two repositories may have a chart of one name and version.
		file := fmt.Sprintf("%s-%s-%.12s.tgz", archive.Name, archive.Version, strings.TrimPrefix(archive.Digest, "sha256:"))
		if err := os.WriteFile(filepath.Join(dir, file), archive.Data, 0o644); err != nil {
			return err
		}
		index.Entries[archive.Name] = append(index.Entries[archive.Name], indexEntry{
			Name:        archive.Name,
			Version:     archive.Version,
			APIVersion:  "v2", // Helm passes over an entry without one.
			Annotations: map[string]string{repositoryAnnotation: at.String()},
			Digest:      strings.TrimPrefix(archive.Digest, "sha256:"),
			URLs:        []string{file},
		})
	}
	for _, entries := range index.Entries {
		slices.SortStableFunc(entries, func(a, b indexEntry) int {
			return strings.Compare(a.Version+a.URLs[0], b.Version+b.URLs[0])
		})
	}
	data, err := yaml.Marshal(index)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "index.yaml"), data, 0o644)
}
