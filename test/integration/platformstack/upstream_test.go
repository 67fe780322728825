package platformstack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// hub is a registry that lets in me with the password hunter2 only.
func hub(t *testing.T) (host string) {
	t.Helper()
	inner := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" {
			w.Header().Set("WWW-Authenticate", `Basic realm="it"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(served.Close)
	return strings.TrimPrefix(served.URL, "http://")
}

// hubLogin is what docker login writes of a hub.
func hubLogin(host, password string) string {
	return `{"auths":{"` + host + `":{"username":"me","password":"` + password + `"}}}`
}

// push pushes an image and gives its digest.
func push(t *testing.T, reference string, image v1.Image) string {
	t.Helper()
	at, err := name.ParseReference(reference)
	if err == nil {
		err = remote.Write(at, image, remote.WithAuth(&authn.Basic{Username: "me", Password: "hunter2"}))
	}
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// imageOf is an image of one layer, as a bundle or a chart is published.
func imageOf(t *testing.T, dir string, layer, configuration types.MediaType) v1.Image {
	t.Helper()
	var data bytes.Buffer
	packed := gzip.NewWriter(&data)
	archive := tar.NewWriter(packed)
	if err := errors.Join(archive.AddFS(os.DirFS(dir)), archive.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), configuration)
	image, err := mutate.Append(image, mutate.Addendum{Layer: static.NewLayer(data.Bytes(), layer)})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// pushBundle publishes the directory of a bundle.
func pushBundle(t *testing.T, reference, dir string) string {
	t.Helper()
	return push(t, reference, imageOf(t, dir, types.OCILayer, types.OCIConfigJSON))
}

// chartDir is a directory with a chart of a name in it, of files below templates/.
func chartDir(t *testing.T, name, version, values string, templates map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	written(t, dir, name+"/Chart.yaml", "apiVersion: v2\nname: "+name+"\nversion: "+version+"\n")
	written(t, dir, name+"/values.yaml", values)
	for file, text := range templates {
		written(t, dir, name+"/templates/"+file, text)
	}
	return dir
}

// pushChart publishes a chart, as helm push does.
func pushChart(t *testing.T, reference, dir string) string {
	t.Helper()
	return push(t, reference, imageOf(t, dir, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "application/vnd.cncf.helm.config.v1+json"))
}

// newSigner makes a key pair, and its public half in PEM.
func newSigner(t *testing.T) (crypto.Signer, string) {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	return signer, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// sign signs an image as cosign does: with an image beside it.
func sign(t *testing.T, repository, digest string, signer crypto.Signer) {
	t.Helper()
	payload := []byte(`{"critical":{"identity":{"docker-reference":"example.com/a"},"image":{"docker-manifest-digest":"` + digest + `"},"type":"cosign container image signature"},"optional":null}`)
	sum := sha256.Sum256(payload)
	signature, err := signer.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:       static.NewLayer(payload, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature)},
	})
	if err != nil {
		t.Fatal(err)
	}
	push(t, repository+":"+strings.Replace(digest, ":", "-", 1)+".sig", image)
}
