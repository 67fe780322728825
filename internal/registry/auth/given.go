package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/internal/registry"
)

// Given are credentials that someone has handed over, such as Secrets of type
// kubernetes.io/dockerconfigjson. Whoever wrote them isn't the one who runs this
// program, so that no helper that they name is run.
type Given struct{ files []file }

// ParseGiven reads auth files. An error says which of them is none, from 1 on, and
// repeats nothing of it.
func ParseGiven(texts ...[]byte) (Given, error) {
	made := Given{}
	for i, text := range texts {
		var content file
		if len(text) > maxFile || json.Unmarshal(text, &content) != nil {
			return Given{}, fmt.Errorf("pull secret %d of %d isn't an auth file; make it with kubectl create secret docker-registry", i+1, len(texts))
		}
		content.CredHelpers, content.CredsStore = nil, ""
		made.files = append(made.files, content)
	}
	return made, nil
}

// Find gives the credentials for a repository of a registry, of the first file that
// has some; the zero value if none has.
func (g Given) Find(ctx context.Context, host, repository string) (registry.Credentials, error) {
	if host == hubServer {
		host = hub
	}
	var faults []error
	for _, each := range g.files {
		found, err := each.find(ctx, host, repository, "")
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if found.Username+found.Password+found.Token != "" {
			return found, nil
		}
	}
	return registry.Credentials{}, errors.Join(faults...)
}
