// Package source reads what a spec refers to in ConfigMaps and Secrets: the values
// of a chart, and what opens its repository. It is given what they hold, reads no
// cluster, and no error of its repeats what a Secret holds.
package source

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
)

// Kinds of sources.
const (
	KindConfigMap = "ConfigMap"
	KindSecret    = "Secret"
)

// ReasonSourceNotFound is the reason of a release that waits for a ConfigMap or
// Secret.
const ReasonSourceNotFound = "SourceNotFound"

// Source is a ConfigMap or Secret that a spec names.
type Source struct{ Kind, Namespace, Name string }

// String names a source in a sentence.
func (s Source) String() string { return s.Kind + " " + s.Name + " in namespace " + s.Namespace }

// Data is what a source holds.
type Data map[string][]byte

// Credentials open a chart's repository. They never print.
type Credentials struct {
	Username, Password, Token string
	CA                        []byte
}

// String hides the credentials, whatever prints them.
func (Credentials) String() string { return "credentials" }

// GoString hides the credentials from %#v.
func (Credentials) GoString() string { return "source.Credentials" }

// OfValues is the source of a reference to values; namespace is that of one that
// names none.
func OfValues(reference componentsv1alpha1.ValuesReference, namespace string) Source {
	return Source{Kind: reference.Kind, Namespace: cmp.Or(reference.Namespace, namespace), Name: reference.Name}
}

// OfRepository are the sources that a repository names.
func OfRepository(repository *componentsv1alpha1.Repository, namespace string) []Source {
	if repository == nil {
		return nil
	}
	var all []Source
	for _, reference := range []*componentsv1alpha1.SecretReference{repository.SecretRef, repository.CASecretRef} {
		if reference != nil {
			all = append(all, ofSecret(reference, namespace))
		}
	}
	return all
}

func ofSecret(reference *componentsv1alpha1.SecretReference, namespace string) Source {
	return Source{Kind: KindSecret, Namespace: cmp.Or(reference.Namespace, namespace), Name: reference.Name}
}

// Open gives the credentials of a repository. field is what a sentence calls the
// repository. An error is condition's, as with Values.Merge.
func Open(repository *componentsv1alpha1.Repository, namespace, field string, sources map[Source]Data) (Credentials, error) {
	var found Credentials
	if repository == nil {
		return found, nil
	}
	if reference := repository.SecretRef; reference != nil {
		from := ofSecret(reference, namespace)
		data, is := sources[from]
		if !is {
			return found, absent(from, field+".secretRef")
		}
		var err error
		if found, err = login(data, from, repository.URL); err != nil {
			return found, err
		}
	}
	if reference := repository.CASecretRef; reference != nil {
		from := ofSecret(reference, namespace)
		data, is := sources[from]
		if !is {
			return found, absent(from, field+".caSecretRef")
		}
		if found.CA = data["ca.crt"]; len(found.CA) == 0 {
			return found, condition.Stop(condition.ReasonInvalidSpec, "%s has no certificate under ca.crt; add it", from)
		}
	}
	return found, nil
}

func absent(from Source, named string) error {
	return condition.Wait(ReasonSourceNotFound, "%s doesn't exist; create it, or change %s", from, named)
}

// dockerConfig is the key of a Secret of type kubernetes.io/dockerconfigjson.
const dockerConfig = ".dockerconfigjson"

func login(data Data, from Source, repository string) (Credentials, error) {
	if text, is := data[dockerConfig]; is {
		return dockerLogin(text, from, repository)
	}
	found := Credentials{
		Username: strings.TrimRight(string(data["username"]), "\r\n"),
		Password: strings.TrimRight(string(data["password"]), "\r\n"),
		Token:    strings.TrimRight(string(data["token"]), "\r\n"),
		CA:       data["ca.crt"],
	}
	if found.Token == "" && (found.Username == "" || found.Password == "") {
		return found, condition.Stop(condition.ReasonInvalidSpec,
			"%s has neither username and password nor token; add them, or write a Secret of type kubernetes.io/dockerconfigjson", from)
	}
	return found, nil
}

// dockerLogin finds the entry of a repository's host.
func dockerLogin(text []byte, from Source, repository string) (Credentials, error) {
	var config struct {
		Auths map[string]struct{ Username, Password, Auth, RegistryToken string }
	}
	if err := json.Unmarshal(text, &config); err != nil {
		// What the parser says may quote what is secret.
		return Credentials{}, condition.Stop(condition.ReasonInvalidSpec, "%s holds no JSON under %s; write what docker login does", from, dockerConfig)
	}
	host := hostOf(repository)
	for name, entry := range config.Auths {
		if hostOf(name) != host {
			continue
		}
		found := Credentials{Username: entry.Username, Password: entry.Password, Token: entry.RegistryToken}
		if both, err := base64.StdEncoding.DecodeString(entry.Auth); err == nil && found.Username == "" {
			found.Username, found.Password, _ = strings.Cut(string(both), ":")
		}
		return found, nil
	}
	return Credentials{}, condition.Stop(condition.ReasonInvalidSpec, "%s has no login for %s; add one", from, host)
}

// hostOf is the host and port of a URL, with or without its scheme.
func hostOf(url string) string {
	if _, rest, is := strings.Cut(url, "://"); is {
		url = rest
	}
	host, _, _ := strings.Cut(url, "/")
	return host
}
