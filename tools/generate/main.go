// Command generate writes everything in the repository that is generated from
// Go source, or, with -check, says what is stale and writes nothing.
//
// It drives controller-gen's generators as a library, because one load of the
// packages serves them all and -check needs their output in memory. It never
// reaches a cluster or the network.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// owned are the patterns of files that only this program writes; a file that
// matches and is no longer wanted is removed.
var owned = []string{
	"api/*/*/zz_generated.deepcopy.go",
	"config/crd/*.yaml",
	"config/rbac/*.yaml",
	"helm-charts/llm-operator/crds/*.yaml",
	"helm-charts/llm-operator/templates/generated-*.yaml",
}

func main() {
	check := flag.Bool("check", false, "say what is stale and write nothing")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run generates into memory and then compares or writes. The working directory
// is the repository's root.
func run(check bool) error {
	wanted, err := generate()
	if err != nil {
		return err
	}
	stale, err := compare(wanted)
	if err != nil {
		return err
	}
	if len(stale) == 0 {
		return nil
	}
	if check {
		return fmt.Errorf("stale: %s; run make generate and commit the result", strings.Join(stale, ", "))
	}
	for _, path := range stale {
		if err := write(path, wanted); err != nil {
			return err
		}
		fmt.Println("wrote", path)
	}
	return nil
}

// generate returns everything generated, by path.
func generate() (map[string][]byte, error) {
	wanted := map[string][]byte{}
	crds, err := types(wanted)
	if err != nil {
		return nil, err
	}
	rules, err := roles(wanted)
	if err != nil {
		return nil, err
	}
	return wanted, chart(wanted, crds, rules)
}

// compare lists the paths whose content differs from what is wanted, those that
// are absent, and those that are no longer wanted.
func compare(wanted map[string][]byte) ([]string, error) {
	stale := []string{}
	for path, content := range wanted {
		have, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || !bytes.Equal(have, content) {
			stale = append(stale, path)
		}
	}
	for _, pattern := range owned {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			if _, keep := wanted[path]; !keep {
				stale = append(stale, path)
			}
		}
	}
	slices.Sort(stale)
	return stale, nil
}

// write makes the file at path what is wanted there, or removes it.
func write(path string, wanted map[string][]byte) error {
	content, keep := wanted[path]
	if !keep {
		return os.Remove(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
