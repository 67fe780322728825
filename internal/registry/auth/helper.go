package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/registry"
)

// Bounds of a helper's run.
const (
	helperTime = 30 * time.Second // a person may have to unlock a keychain
	maxAnswer  = 64 << 10
)

// notFound is how a helper says that it has none (docker-credential-helpers,
// credentials/error.go).
const notFound = "credentials not found in native keychain"

// helperName is what may follow docker-credential-: no path.
var helperName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ask runs docker-credential-NAME get. What it says is in no error, since it may be
// a secret.
func ask(ctx context.Context, helper, server, path string) (registry.Credentials, error) {
	program := "docker-credential-" + helper
	if !helperName.MatchString(helper) {
		return registry.Credentials{}, fmt.Errorf("%q is no name of a credential helper", helper)
	}
	found, err := look(program, path)
	if err != nil {
		return registry.Credentials{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, helperTime)
	defer cancel()
	command := exec.CommandContext(ctx, found, "get")
	command.Stdin = strings.NewReader(server)
	command.WaitDelay = time.Second // a child of the helper may hold its output open
	answer := &limited{}
	command.Stdout = answer
	err = command.Run()
	switch {
	case ctx.Err() != nil:
		return registry.Credentials{}, fmt.Errorf("%s doesn't answer within %s; unlock its keychain, or log in without it", program, helperTime)
	case err != nil && strings.Contains(answer.kept.String(), notFound):
		return registry.Credentials{}, nil
	case err != nil:
		return registry.Credentials{}, fmt.Errorf("%s fails for %s; try: echo %s | %s get", program, server, server, program)
	}
	var said struct{ Username, Secret string }
	if json.Unmarshal(answer.kept.Bytes(), &said) != nil || answer.over {
		return registry.Credentials{}, fmt.Errorf("%s answers what is no JSON; try: echo %s | %s get", program, server, program)
	}
	if said.Username == "<token>" {
		return registry.Credentials{}, fmt.Errorf("%s gives an identity token, which isn't supported; log in with a user name and a password", program)
	}
	return registry.Credentials{Username: said.Username, Password: said.Secret}, nil
}

// look finds a program in the directories of path. One without a full path isn't
// taken: it would be whatever stands in the working directory.
func look(program, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		name := filepath.Join(dir, program)
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return name, nil
		}
	}
	return "", fmt.Errorf("the credential helper %s isn't installed; install it, or log in without it", program)
}

// limited keeps the beginning of what is written to it.
type limited struct {
	kept bytes.Buffer // not embedded: its ReadFrom knows no bound
	over bool
}

func (l *limited) Write(data []byte) (int, error) {
	if l.kept.Len()+len(data) > maxAnswer {
		l.over = true
		return 0, errors.New("too long an answer")
	}
	return l.kept.Write(data)
}
