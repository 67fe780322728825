package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/cluster"
)

// TestQuickstart runs the commands of docs/quickstart.md as they are printed, in
// one shell, from the checkout's root.
func TestQuickstart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the quickstart's cluster needs root")
	}
	if testing.Short() {
		t.Skip("the quickstart takes a minute")
	}
	t.Setenv("SLIPWAY_STATE", t.TempDir())
	t.Cleanup(func() { _ = cluster.Down(context.Background(), cluster.DefaultName) })
	page, err := os.ReadFile(filepath.Join(repository, "docs", "quickstart.md"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute) // the first up compiles
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-euxo", "pipefail", "-c", commands(string(page)))
	shell.Dir = repository
	shell.WaitDelay = 10 * time.Second
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("docs/quickstart.md: %v\n%s", err, out)
	}
	for _, want := range []string{
		"I am Slipway's simulator",             // chat
		`"object":"chat.completion"`,           // curl
		"your-registry/gpt-small:v2",           // the fault names the image
		"llmmodel.llm.example.com \"gpt-small", // deleted
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
}

// commands are the contents of a page's sh blocks.
func commands(page string) string {
	var script strings.Builder
	inside := false
	for line := range strings.Lines(page) {
		switch strings.TrimSpace(line) {
		case "```sh":
			inside = true
			continue
		case "```":
			inside = false
			continue
		}
		if inside {
			script.WriteString(line)
		}
	}
	return script.String()
}
