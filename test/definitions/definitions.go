// Package definitions finds the published custom resource definitions of APIs
// that Slipway uses where a cluster serves them. They come from the Go modules
// that publish them, at pinned versions; nothing of them is in this repository.
package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The modules, and where in them the definitions are.
const (
	inferenceModule = "sigs.k8s.io/gateway-api-inference-extension@v1.2.0"
	gatewayModule   = "sigs.k8s.io/gateway-api@v1.4.0"
	istioModule     = "istio.io/api@v1.28.1"
)

// Names of the definitions that a stack of simulators may use.
const (
	InferencePools      = "inferencepools.inference.networking.k8s.io"
	InferencePoolsX     = "inferencepools.inference.networking.x-k8s.io"
	InferenceObjectives = "inferenceobjectives.inference.networking.x-k8s.io"
	DestinationRules    = "destinationrules.networking.istio.io"
	Gateways            = "gateways.gateway.networking.k8s.io"
	HTTPRoutes          = "httproutes.gateway.networking.k8s.io"
)

// All gives the optional definitions by their names. It downloads modules that
// the module cache lacks.
func All(ctx context.Context) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for module, pattern := range map[string]string{
		inferenceModule: "config/crd/bases/*.yaml",
		gatewayModule:   "config/crd/standard/gateway.networking.k8s.io_*.yaml",
		istioModule:     "kubernetes/customresourcedefinitions.gen.yaml",
	} {
		dir, err := download(ctx, module)
		if err != nil {
			return nil, err
		}
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("module %s has no %s", module, pattern)
		}
		for _, file := range files {
			if err := read(file, found); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range []string{InferencePools, InferencePoolsX, InferenceObjectives, DestinationRules, Gateways, HTTPRoutes} {
		if found[name] == nil {
			return nil, fmt.Errorf("no module defines %s", name)
		}
	}
	return found, nil
}

func download(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir() // outside of every module: the version is the one named
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if parsed := json.Unmarshal(out, &answer); parsed != nil || answer.Dir == "" {
		return "", fmt.Errorf("download %s: %w: %s", module, err, answer.Error)
	}
	return answer.Dir, nil
}

func read(path string, into map[string]*apiextensionsv1.CustomResourceDefinition) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := decoder.Decode(definition); err != nil {
			if err.Error() == "EOF" {
				return nil
			}
			return fmt.Errorf("%s: %w", path, err)
		}
		if definition.Name != "" {
			into[definition.Name] = definition
		}
	}
}
