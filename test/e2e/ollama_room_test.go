package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-dev/slipway/test/ollama/model"
)

// smallVolume is a volume that a model doesn't fit into, of a class that lets
// claims grow. The file system is the test's, and so is its growth: the local
// cluster's own volumes are folders without a bound.
const smallVolume = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: small}
provisioner: kubernetes.io/no-provisioner
allowVolumeExpansion: true
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: small}
spec:
  storageClassName: small
  capacity: {storage: 1Mi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: default, name: full-storage}
  hostPath: {path: FOLDER}
`

// mountSmall mounts a file system that is too small for a model. It is done before
// the cluster's nodes start, which else wouldn't see it.
func mountSmall(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("small", folder, "tmpfs", 0, "size=200k,mode=1777"); err != nil {
		t.Fatalf("mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount the small file system: %v", err)
		}
	})
	return folder
}

// testOllamaFull: a volume that is full is told with the way out, which is taken;
// it goes on as soon as the volume has grown.
func testOllamaFull(folder string) func(*localCluster) {
	return func(c *localCluster) {
		c.apply(strings.ReplaceAll(smallVolume, "FOLDER", folder))
		c.installs("full", `llmName: full, gpuCount: 0, model: tinyllama, persistentStorage: true, storageSize: 1Mi, storageClassName: small`)
		noSpace := `jsonpath={.status.conditions[?(@.type=="Ready")].reason}=NoSpace`
		c.becomes("full", noSpace)
		want := "there is no room for model tinyllama:latest; raise spec.storageSize, or remove models that aren't needed; it goes on when there is"
		if out := c.field("full", ".status.message"); out != want {
			c.t.Errorf("the message is %q, want %q", out, want)
		}
		c.kubectl("patch", "nvidiagpullm", "full", "--type=merge", "-p", `{"spec":{"storageSize":"8Mi"}}`)
		c.kubectl("wait", "pvc/full-storage", "--for=jsonpath={.spec.resources.requests.storage}=8Mi", "--timeout=60s")
		c.becomes("full", "jsonpath={.status.observedGeneration}=2")
		c.becomes("full", noSpace) // what was asked for isn't there yet
		if err := syscall.Mount("small", folder, "tmpfs", syscall.MS_REMOUNT, "size=8m,mode=1777"); err != nil {
			c.t.Fatalf("let the file system grow: %v", err)
		}
		c.kubectl("patch", "pvc", "full-storage", "--subresource=status", "--type=merge", "-p", `{"status":{"capacity":{"storage":"8Mi"}}}`)
		c.becomes("full", "condition=Ready")
		if out := c.answers("full", "tinyllama"); !strings.Contains(out, model.Steady) {
			c.t.Errorf("when there is room, the model answers %s", out)
		}
		c.kubectl("delete", "nvidiagpullm", "full", "--timeout=60s")
		c.kubectl("delete", "pvc", "full-storage", "--timeout=60s")
		c.kubectl("delete", "pv", "small", "--timeout=60s")
	}
}
