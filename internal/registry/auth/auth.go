// Package auth finds the credentials for a registry where podman and docker keep
// them: in auth files, and behind credential helpers. It writes none of them, keeps
// nothing, and no error of its says a secret.
//
// The format of the files, their places and their order are those of
// containers-auth.json(5); a docker config.json has the same form. Helpers speak
// docker-credential-helpers' protocol.
package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-dev/slipway/internal/registry"
)

// maxFile bounds an auth file, in bytes.
const maxFile = 1 << 20

// Docker's own registry has three names, of which users write the first.
const (
	hub       = "docker.io"
	hubServer = "index.docker.io"
	hubKey    = "https://index.docker.io/v1/"
)

// Finder looks for credentials.
type Finder struct {
	// File, if set, is the only file that is looked at.
	File string
	// Getenv reads the environment; os.Getenv in a command.
	Getenv func(string) string
	// Home is the user's directory; empty if there is none.
	Home string
}

// file is an auth.json or config.json.
type file struct {
	Auths       map[string]entry  `json:"auths"`
	CredHelpers map[string]string `json:"credHelpers"`
	CredsStore  string            `json:"credsStore"`
}

type entry struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// Find gives the credentials for a repository (such as team/bundle) of a registry
// (a host, with its port if it has one), of the first file that has some; the zero
// value if none has. The most specific path wins within a file.
func (f Finder) Find(ctx context.Context, host, repository string) (registry.Credentials, error) {
	if host == hubServer {
		host = hub
	}
	for _, name := range f.files() {
		content, err := readFile(name)
		if errors.Is(err, fs.ErrNotExist) && f.File == "" {
			continue
		}
		if err != nil {
			return registry.Credentials{}, err
		}
		found, err := content.find(ctx, host, repository, f.Getenv("PATH"))
		if err != nil {
			return registry.Credentials{}, fmt.Errorf("%s: %w", name, err)
		}
		if found.Username+found.Password+found.Token != "" {
			return found, nil
		}
	}
	return registry.Credentials{}, nil
}

// files are the places to look at, in their order.
func (f Finder) files() []string {
	if f.File != "" {
		return []string{f.File}
	}
	if named := f.Getenv("REGISTRY_AUTH_FILE"); named != "" {
		return []string{named}
	}
	var names []string
	add := func(dir string, parts ...string) {
		if dir != "" {
			names = append(names, filepath.Join(append([]string{dir}, parts...)...))
		}
	}
	add(f.Getenv("XDG_RUNTIME_DIR"), "containers", "auth.json")
	if config := f.Getenv("XDG_CONFIG_HOME"); config != "" {
		add(config, "containers", "auth.json")
	} else {
		add(f.Home, ".config", "containers", "auth.json")
	}
	if docker := f.Getenv("DOCKER_CONFIG"); docker != "" {
		add(docker, "config.json")
	} else {
		add(f.Home, ".docker", "config.json")
	}
	return names
}

func readFile(name string) (file, error) {
	opened, err := os.Open(name)
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file{}, fmt.Errorf("there is no auth file %s: %w", name, fs.ErrNotExist)
	case errors.As(err, &at):
		return file{}, fmt.Errorf("the auth file %s can't be read: %w", name, at.Err)
	case err != nil:
		return file{}, err
	}
	defer opened.Close()
	text, err := io.ReadAll(io.LimitReader(opened, maxFile+1))
	if err != nil {
		return file{}, fmt.Errorf("the auth file %s can't be read: %w", name, err)
	}
	var content file
	// The decoder's error might repeat a part of the text.
	if len(text) > maxFile || json.Unmarshal(text, &content) != nil {
		return file{}, fmt.Errorf("%s isn't an auth file; log in again with podman login or docker login", name)
	}
	return content, nil
}

func (f file) find(ctx context.Context, host, repository, path string) (registry.Credentials, error) {
	none := registry.Credentials{}
	auths := map[string]entry{}
	for key, each := range f.Auths {
		// A key that isn't normal doesn't hide one that is.
		if normal := normalize(key); normal == key || auths[normal] == (entry{}) {
			auths[normal] = each
		}
	}
	for _, key := range keys(host, repository) {
		if helper := f.CredHelpers[key]; helper != "" {
			return ask(ctx, helper, key, path)
		}
		if key == hub && f.CredHelpers[hubKey] != "" {
			return ask(ctx, f.CredHelpers[hubKey], hubKey, path)
		}
		if each := auths[key]; each != (entry{}) {
			return each.credentials(key)
		}
	}
	if f.CredsStore == "" {
		return none, nil
	}
	server := host
	if host == hub {
		server = hubKey
	}
	return ask(ctx, f.CredsStore, server, path)
}

// keys are what credentials for a repository may be filed under, the most specific
// first.
func keys(host, repository string) []string {
	var all []string
	for path := repository; path != "" && path != "."; {
		all = append(all, host+"/"+path)
		cut := strings.LastIndex(path, "/")
		path = path[:max(cut, 0)]
	}
	return append(all, host)
}

// normalize turns what docker has written over the years (https://host/v1/) into a
// host. A path without a scheme is podman's, and stays.
func normalize(key string) string {
	stripped, hadScheme := strings.CutPrefix(key, "https://")
	if !hadScheme {
		stripped, hadScheme = strings.CutPrefix(key, "http://")
	}
	if hadScheme {
		stripped, _, _ = strings.Cut(stripped, "/")
	}
	if stripped == hubServer {
		return hub
	}
	return stripped
}

func (e entry) credentials(key string) (registry.Credentials, error) {
	switch {
	case e.IdentityToken != "":
		return registry.Credentials{}, fmt.Errorf("the entry %s is an identity token, which isn't supported; log in with a user name and a password", key)
	case e.RegistryToken != "":
		return registry.Credentials{Token: e.RegistryToken}, nil
	case e.Auth == "":
		return registry.Credentials{Username: e.Username, Password: e.Password}, nil
	}
	decoded, err := base64.StdEncoding.DecodeString(e.Auth)
	user, password, found := strings.Cut(string(decoded), ":")
	if err != nil || !found {
		return registry.Credentials{}, fmt.Errorf("the entry %s isn't a user name and a password in base64; log in again", key)
	}
	return registry.Credentials{Username: user, Password: strings.TrimRight(password, "\x00")}, nil
}
