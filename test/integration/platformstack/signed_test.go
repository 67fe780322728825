package platformstack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// TestManifestsMustBeSigned has a component refuse an artifact that isn't signed with
// the key of its source, and take it once it is.
func TestManifestsMustBeSigned(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://") + "/manifests/clam"
	digest := pushed(t, at+":1", mutate.Addendum{
		Layer:       static.NewLayer([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: clam}\n"), "application/vnd.oci.image.layer.v1+yaml"),
		Annotations: map[string]string{"org.opencontainers.image.title": "clam.yaml"},
	})
	owner, stranger := signer(t), signer(t)
	spec := func(source string) string {
		return "components:\n- {name: clam, namespace: signed-clam, source: {manifests: {" + source + "}}}\n"
	}
	of := "image: '" + at + ":1', key: '" + strings.ReplaceAll(public(t, owner), "\n", "\n\n") + "'"
	for source, why := range map[string]string{
		"path: /srv, key: k": "a signature is checked of an image only: remove key, or publish the manifests as an OCI artifact and write image",
		"url: 'https://example.com/a', digest: '" + digest + "', key: k":  "a signature is checked of an image only",
		"image: '" + at + ":1', key: '" + strings.Repeat("k", 4097) + "'": "4096",
	} {
		if err := kube.Create(t.Context(), stackOf(t, "signed", spec(source))); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.60s: it says %v", source, err)
		}
	}

	create(t, "signed", spec(of))
	says := func(why string) {
		t.Helper()
		await(t, "signed", func(s *platformv1alpha1.PlatformStack) string {
			if clam := component(s, "clam"); clam.Phase == platformv1alpha1.PhaseFailed && strings.Contains(clam.Message, why) {
				return ""
			}
			return "it doesn't say " + why
		})
	}
	again := func(value string) {
		t.Helper()
		change(t, "signed", func(s *platformv1alpha1.PlatformStack) {
			s.Annotations = map[string]string{platformstack.AnnotationRetry: value}
		})
	}
	says("isn't signed in the way that can be checked")
	sign := func(by *ecdsa.PrivateKey) {
		t.Helper()
		payload := []byte(`{"critical":{"identity":{"docker-reference":"clam"},"image":{"docker-manifest-digest":"` + digest + `"},"type":"cosign container image signature"}}`)
		sum := sha256.Sum256(payload)
		text, err := ecdsa.SignASN1(rand.Reader, by, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		pushed(t, at+":"+strings.Replace(digest, ":", "-", 1)+".sig", mutate.Addendum{
			Layer:       static.NewLayer(payload, "application/vnd.dev.cosign.simplesigning.v1+json"),
			Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(text)},
		})
	}
	sign(stranger)
	again("1")
	says("isn't signed with this key")
	sign(owner)
	again("2")
	if ready := component(await(t, "signed", isReady), "clam"); ready.Digest != digest {
		t.Errorf("it is ready with %s, not %s", ready.Digest, digest)
	}
}

// pushed puts an artifact of layers into a registry, and gives its digest.
func pushed(t *testing.T, reference string, layers ...mutate.Addendum) string {
	t.Helper()
	made, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layers...)
	if err != nil {
		t.Fatal(err)
	}
	at, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(at, made); err != nil {
		t.Fatal(err)
	}
	var digest v1.Hash
	if digest, err = made.Digest(); err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func signer(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// public is a key as a source names it.
func public(t *testing.T, of *ecdsa.PrivateKey) string {
	t.Helper()
	text, err := x509.MarshalPKIXPublicKey(of.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: text}))
}
