package auth_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/registry/auth"
)

func TestGiven(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-evil"), []byte("#!/bin/sh\ntouch "+dir+"/ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	given, err := auth.ParseGiven(
		[]byte(`{"auths":{"r.example":`+userA+`,"bad.example":{"auth":"!"}},"credsStore":"evil","credHelpers":{"helped.example":"evil"}}`),
		[]byte(`{"auths":{"r.example":`+userB+`,"r.example/team":`+userB+`,"other.example":`+userC+`,"https://index.docker.io/v1/":`+userA+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{"r.example": "A", "other.example": "C", "docker.io": "A", "index.docker.io": "A", "helped.example": "", "nobody.example": ""} {
		found, err := given.Find(t.Context(), host, "team/bundle")
		if err != nil || found.Password != want {
			t.Errorf("%s: %v, want %s", host, err, want)
		}
	}
	if _, err := given.Find(t.Context(), "bad.example", "a"); err == nil || !strings.Contains(err.Error(), "the entry bad.example isn't a user name") {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("a helper that a Secret names has run")
	}
	if _, err := auth.ParseGiven([]byte("{}"), []byte("hunter2")); err == nil || strings.Contains(err.Error(), "hunter") || !strings.Contains(err.Error(), "2 of 2") {
		t.Error(err)
	}
}
