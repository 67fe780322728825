package auth_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/registry/auth"
)

// write makes files below a directory of the test's.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// encoded are user:NAME pairs in base64.
const (
	userA = `{"auth":"dXNlcjpB"}`
	userB = `{"auth":"dXNlcjpC"}`
	userC = `{"username":"user","password":"C"}`
)

func TestPlaces(t *testing.T) {
	all := map[string]string{
		"named.json":                   `{"auths":{"r.example":` + userA + `}}`,
		"run/containers/auth.json":     `{"auths":{"r.example":` + userB + `}}`,
		".config/containers/auth.json": `{"auths":{"r.example":` + userA + `,"other.example":` + userC + `}}`,
		".docker/config.json":          `{"auths":{"docker.example":` + userB + `,"https://index.docker.io/v1/":` + userA + `,"https://old.example/v2/":` + userC + `}}`,
	}
	home := write(t, all)
	for name, test := range map[string]struct {
		env        map[string]string
		file, host string
		want       string
	}{
		"the first file":        {host: "r.example", env: map[string]string{"XDG_RUNTIME_DIR": home + "/run"}, want: "B"},
		"no such directory":     {host: "r.example", env: map[string]string{"XDG_RUNTIME_DIR": home + "/none"}, want: "A"},
		"the next file":         {host: "other.example", env: map[string]string{"XDG_RUNTIME_DIR": home + "/run"}, want: "C"},
		"docker's":              {host: "docker.example", want: "B"},
		"docker's own registry": {host: "index.docker.io", want: "A"},
		"an old key":            {host: "old.example", want: "C"},
		"REGISTRY_AUTH_FILE":    {host: "r.example", env: map[string]string{"REGISTRY_AUTH_FILE": home + "/named.json", "XDG_RUNTIME_DIR": home + "/run"}, want: "A"},
		"only that":             {host: "docker.example", env: map[string]string{"REGISTRY_AUTH_FILE": home + "/named.json"}},
		"--auth-file":           {host: "r.example", file: home + "/run/containers/auth.json", env: map[string]string{"REGISTRY_AUTH_FILE": home + "/named.json"}, want: "B"},
		"nobody":                {host: "nobody.example"},
	} {
		t.Run(name, func(t *testing.T) {
			finder := auth.Finder{File: test.file, Home: home, Getenv: func(name string) string { return test.env[name] }}
			found, err := finder.Find(t.Context(), test.host, "team/bundle")
			if err != nil || found.Password != test.want {
				t.Errorf("%q, %v", found.Password, err)
			}
		})
	}
}

func TestTheMostSpecificPathWins(t *testing.T) {
	home := write(t, map[string]string{"auth.json": `{"auths":{"r.example":` + userA + `,"r.example/team":` + userB + `,"r.example/team/bundle":` + userC + `}}`})
	for repository, want := range map[string]string{"team/bundle": "C", "team/other": "B", "team/deep/one": "B", "else/bundle": "A", "teamwork": "A"} {
		found, err := auth.Finder{File: home + "/auth.json", Getenv: os.Getenv}.Find(t.Context(), "r.example", repository)
		if err != nil || found.Password != want {
			t.Errorf("%s: %q, %v", repository, found.Password, err)
		}
	}
}

func TestHelpers(t *testing.T) {
	home := write(t, map[string]string{
		"bin/docker-credential-good": "#!/bin/sh\nread server\necho \"{\\\"Username\\\":\\\"user\\\",\\\"Secret\\\":\\\"$server\\\"}\"\n",
		"bin/docker-credential-none": "#!/bin/sh\necho credentials not found in native keychain\nexit 1\n",
		"bin/docker-credential-bad":  "#!/bin/sh\necho hunter2 is broken\nexit 1\n",
		"bin/docker-credential-long": "#!/bin/sh\nwhile :; do echo hunter2hunter2hunter2hunter2hunter2; done\n",
		"bin/docker-credential-text": "#!/bin/sh\necho hunter2\n",
		"config.json":                `{"auths":{"r.example":{}},"credHelpers":{"one.example":"good","bad.example":"bad","long.example":"long","text.example":"text","gone.example":"gone","path.example":"../good"},"credsStore":"good"}`,
		"none.json":                  `{"auths":{"r.example":{}},"credsStore":"none"}`,
	})
	find := func(file, host string) (registry.Credentials, error) {
		env := func(name string) string { return map[string]string{"PATH": home + "/bin"}[name] }
		return auth.Finder{File: filepath.Join(home, file), Getenv: env}.Find(t.Context(), host, "team/bundle")
	}
	for host, want := range map[string]string{"one.example": "one.example", "r.example": "r.example", "docker.io": "https://index.docker.io/v1/"} {
		if found, err := find("config.json", host); err != nil || found.Password != want {
			t.Errorf("%s: %q, %v", host, found.Password, err)
		}
	}
	if found, err := find("none.json", "r.example"); err != nil || found.Username != "" {
		t.Errorf("%v, %v", found, err)
	}
	for host, want := range map[string]string{
		"bad.example": "docker-credential-bad fails", "long.example": "docker-credential-long", "text.example": "no JSON",
		"gone.example": "isn't installed", "path.example": "is no name of a credential helper",
	} {
		_, err := find("config.json", host)
		sentence(t, err, want)
	}
}

// TestSentences: one line each, and no secret in it.
func TestSentences(t *testing.T) {
	home := write(t, map[string]string{
		"broken.json": `{"auths": hunter2`,
		"base64.json": `{"auths":{"r.example":{"auth":"hunter2!"}}}`,
		"token.json":  `{"auths":{"r.example":{"identitytoken":"hunter2"}}}`,
	})
	for file, want := range map[string]string{"broken.json": "isn't an auth file", "base64.json": "log in again", "token.json": "identity token", "none.json": "there is no auth file"} {
		_, err := auth.Finder{File: filepath.Join(home, file), Getenv: os.Getenv}.Find(t.Context(), "r.example", "x")
		sentence(t, err, want)
	}
}

func sentence(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want one line with %q and no secret", err, want)
	}
}
