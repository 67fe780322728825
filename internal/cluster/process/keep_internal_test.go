package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTrimKeepsTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	if err := os.WriteFile(path, []byte(strings.Repeat("old\n", keptLog/2)+"newest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if err := trim(path); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteString("after\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != keptLog+len("after\n") || !strings.HasSuffix(string(got), "old\nnewest\nafter\n") {
		t.Errorf("the log has %d bytes and ends %q", len(got), got[max(0, len(got)-30):])
	}
}
