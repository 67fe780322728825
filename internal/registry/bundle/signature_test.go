package bundle_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"

	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/registry/signature"
)

// newSigner makes a key pair of a kind.
func newSigner(t *testing.T, kind string) crypto.Signer {
	t.Helper()
	var made crypto.Signer
	var err error
	switch kind {
	case "rsa":
		made, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ed25519":
		_, made, err = ed25519.GenerateKey(rand.Reader)
	default:
		made, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func publicPEM(t *testing.T, signer crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func keyOf(t *testing.T, signer crypto.Signer) *signature.Key {
	t.Helper()
	key, err := signature.ParseKey(publicPEM(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signed is a layer of a signature image, as cosign makes it for a digest.
func signed(t *testing.T, signer crypto.Signer, digest, kind string) mutate.Addendum {
	t.Helper()
	payload := []byte(`{"critical":{"identity":{"docker-reference":"example.com/a"},"image":{"docker-manifest-digest":"` + digest + `"},"type":"` + kind + `"},"optional":null}`)
	data, options := payload, crypto.SignerOpts(crypto.Hash(0))
	if _, whole := signer.(ed25519.PrivateKey); !whole {
		sum := sha256.Sum256(payload)
		data, options = sum[:], crypto.SHA256
	}
	made, err := signer.Sign(rand.Reader, data, options)
	if err != nil {
		t.Fatal(err)
	}
	return mutate.Addendum{
		Layer:       static.NewLayer(payload, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(made)},
	}
}

const cosigns = "cosign container image signature"

// sign pushes signatures of a digest to where cosign puts them.
func sign(t *testing.T, repository, digest string, signatures ...mutate.Addendum) {
	t.Helper()
	made, err := mutate.Append(empty.Image, signatures...)
	if err != nil {
		t.Fatal(err)
	}
	push(t, repository+":"+strings.Replace(digest, ":", "-", 1)+".sig", made)
}

func TestSignatures(t *testing.T) {
	host := hub(t, nil)
	for _, kind := range []string{"ecdsa", "rsa", "ed25519"} {
		t.Run(kind, func(t *testing.T) {
			at := host + "/" + kind
			digest := push(t, at+":v1", three(t))
			signer, stranger := newSigner(t, kind), newSigner(t, kind)
			trusting := source(registry.Credentials{})
			trusting.Key = keyOf(t, signer)
			_, err := trusting.Fetch(t.Context(), at+":v1")
			sentence(t, err, "the registry has no "+strings.Replace(digest, ":", "-", 1)+".sig beside it")
			sign(t, at, digest, signed(t, stranger, digest, cosigns), signed(t, signer, "sha256:"+strings.Repeat("0", 64), cosigns), signed(t, signer, digest, "something else"))
			_, err = trusting.Fetch(t.Context(), at+":v1")
			sentence(t, err, "it isn't signed with this key")
			sign(t, at, digest, signed(t, stranger, digest, cosigns), signed(t, signer, digest, cosigns))
			for _, reference := range []string{at + ":v1", at + "@" + digest} {
				if found, err := trusting.Fetch(t.Context(), reference); err != nil || found.Digest != digest || len(found.Files) != len(wantThree) {
					t.Errorf("%s: %v", reference, err)
				}
			}
			trusting.Key = keyOf(t, newSigner(t, "ecdsa"))
			_, err = trusting.Fetch(t.Context(), at+":v1")
			sentence(t, err, "it isn't signed with this key")
		})
	}
}

// TestSignedIndex: cosign signs what the tag names, which may be an index.
func TestSignedIndex(t *testing.T) {
	host, signer := hub(t, nil), newSigner(t, "ecdsa")
	made := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: three(t), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
	at, err := name.ParseReference(host + "/index:v1")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := made.Digest()
	if err := errors.Join(err, remote.WriteIndex(at, made)); err != nil {
		t.Fatal(err)
	}
	trusting := source(registry.Credentials{})
	trusting.Key = keyOf(t, signer)
	_, err = trusting.Fetch(t.Context(), host+"/index:v1")
	sentence(t, err, "isn't signed in the way that can be checked")
	sign(t, host+"/index", digest.String(), signed(t, signer, digest.String(), cosigns))
	if _, err := trusting.Fetch(t.Context(), host+"/index:v1"); err != nil {
		t.Error(err)
	}
}

func TestSignaturesOfFiles(t *testing.T) {
	trusting := source(registry.Credentials{})
	trusting.Key = keyOf(t, newSigner(t, "ecdsa"))
	_, err := trusting.Fetch(t.Context(), t.TempDir())
	sentence(t, err, "a signature can be checked in a registry only")
}

func TestKeys(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0") // which this test needs to make one at all
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string][]byte{
		"isn't PEM":           []byte("hunter2"),
		"is a private key":    pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: []byte("hunter2")}),
		"is a certificate":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("hunter2")}),
		"damaged public key":  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("hunter2")}),
		"RSA key of 1024":     publicPEM(t, short),
		"so it is no public ": make([]byte, 1<<20),
	} {
		_, err := signature.ParseKey(text)
		sentence(t, err, want)
	}
}
