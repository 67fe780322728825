package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/deepcopy"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/rbac"
	"sigs.k8s.io/yaml"
)

const (
	crdDir  = "config/crd"
	rbacDir = "config/rbac"
)

// memory collects what a generator writes. A package's files are named from the
// repository's root, other files are put into dir.
type memory struct {
	dir   string
	files map[string][]byte
}

// Open implements genall.OutputRule.
func (m memory) Open(pkg *loader.Package, name string) (io.WriteCloser, error) {
	path := filepath.Join(m.dir, name)
	if pkg != nil {
		root, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		if len(pkg.CompiledGoFiles) == 0 {
			return nil, fmt.Errorf("package %s has no files", pkg.PkgPath)
		}
		dir, err := filepath.Rel(root, filepath.Dir(pkg.CompiledGoFiles[0]))
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, name)
	}
	return &memoryFile{path: path, files: m.files}, nil
}

type memoryFile struct {
	bytes.Buffer
	path  string
	files map[string][]byte
}

func (f *memoryFile) Close() error {
	f.files[f.path] = bytes.Clone(f.Bytes())
	return nil
}

// types writes the deep copies and definitions of every kind in api/ and
// returns the definitions. They carry no version of the generator, so that a
// new one that changes nothing changes no file.
func types(wanted map[string][]byte) ([]apiextensionsv1.CustomResourceDefinition, error) {
	omit := true
	var copies genall.Generator = deepcopy.Generator{}
	var definitions genall.Generator = crd.Generator{OmitToolVersion: &omit}
	if err := runAll(wanted, crdDir, "./api/...", &copies, &definitions); err != nil {
		return nil, err
	}
	crds := []apiextensionsv1.CustomResourceDefinition{}
	for path, content := range wanted {
		if filepath.Dir(path) != crdDir {
			continue
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(content, &definition); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		crds = append(crds, definition)
	}
	return crds, nil
}

// roles writes the operator's ClusterRole from the markers in
// internal/controller and returns its rules.
func roles(wanted map[string][]byte) ([]rbacv1.PolicyRule, error) {
	var generator genall.Generator = rbac.Generator{RoleName: "llm-operator"}
	if err := runAll(wanted, rbacDir, "./internal/controller/...", &generator); err != nil {
		return nil, err
	}
	content := wanted[filepath.Join(rbacDir, "role.yaml")]
	if content == nil {
		return nil, errors.New("no +kubebuilder:rbac marker in internal/controller; the operator would have no rights")
	}
	if documents := strings.Count(string(content), "---\n"); documents != 1 {
		return nil, fmt.Errorf("the markers make %d roles; the operator has one ClusterRole", documents)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(content, &role); err != nil {
		return nil, err
	}
	return role.Rules, nil
}

// runAll runs generators over the packages of a pattern.
func runAll(wanted map[string][]byte, dir, pattern string, list ...*genall.Generator) error {
	runtime, err := genall.Generators(list).ForRoots(pattern)
	if err != nil {
		return err
	}
	runtime.OutputRules.Default = memory{dir: dir, files: wanted}
	var problems bytes.Buffer
	runtime.ErrorWriter = &problems
	if failed := runtime.Run(); failed {
		return fmt.Errorf("generating from %s failed: %s", pattern, problems.String())
	}
	return nil
}
