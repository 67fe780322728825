// Package signature checks that an image was signed with a key that the user trusts,
// as cosign signs by default with a key pair: the signature is an image of its own,
// beside the one that it is for, under a tag made of that one's digest, and signs a
// document that names the digest (cosign's SIGNATURE_SPEC.md; the document's form is
// containers/image's "simple signing"). It trusts no certificate authority and asks no
// transparency log.
package signature

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/internal/registry"
)

// What cosign calls the parts of a signature (SIGNATURE_SPEC.md).
const (
	payloadType = "application/vnd.dev.cosign.simplesigning.v1+json"
	annotation  = "dev.cosignproject.cosign/signature"
)

// Bounds of what is read.
const (
	maxPayload    = 64 << 10
	maxSignatures = 64
	maxKey        = 64 << 10
	// shortestRSA is what NIST SP 800-131A still allows for checking.
	shortestRSA = 2048
)

// Key is a public key.
type Key struct{ public crypto.PublicKey }

// ParseKey reads a public key as cosign generate-key-pair and openssl pkey -pubout
// write it: PEM, of ECDSA, RSA or Ed25519. An error never repeats the text.
func ParseKey(text []byte) (*Key, error) {
	if len(text) > maxKey {
		return nil, fmt.Errorf("it has more than %d KiB, so it is no public key; give cosign.pub", maxKey>>10)
	}
	block, _ := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("it isn't PEM; give the public key, which begins with -----BEGIN PUBLIC KEY-----")
	case strings.Contains(block.Type, "PRIVATE KEY"):
		return nil, errors.New("it is a private key, which only the signer may have; give the public one (cosign.pub)")
	case block.Type != "PUBLIC KEY":
		return nil, fmt.Errorf("it is a %s; give the public key, which begins with -----BEGIN PUBLIC KEY-----", strings.ToLower(block.Type))
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("it is a damaged public key; get it again")
	}
	switch key := public.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return &Key{public}, nil
	case *rsa.PublicKey:
		if key.N.BitLen() < shortestRSA {
			return nil, fmt.Errorf("it is an RSA key of %d bits; at least %d are needed", key.N.BitLen(), shortestRSA)
		}
		return &Key{public}, nil
	}
	return nil, errors.New("it is a public key of another kind than ECDSA, RSA and Ed25519")
}

// Made reports whether the key's owner made a signature of a payload.
func (k *Key) Made(signature, payload []byte) bool {
	sum := sha256.Sum256(payload)
	switch public := k.public.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(public, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(public, payload, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}

// Error says why an image isn't taken for signed.
type Error struct{ Why string }

func (e *Error) Error() string { return e.Why }

// Check fails unless the key's owner has signed one of digests: those of an image's
// manifest, and of the index that names it. An error is an *Error, or the registry's
// own.
func (k *Key) Check(ctx context.Context, repository *registry.Repository, digests ...string) error {
	found := 0
	for _, digest := range digests {
		manifest, err := repository.Manifest(ctx, tag(digest))
		var missing *registry.NotFoundError
		if errors.As(err, &missing) {
			continue
		}
		if err != nil {
			return err
		}
		for _, layer := range manifest.Layers {
			if layer.MediaType != payloadType {
				continue
			}
			if found++; found > maxSignatures {
				return &Error{fmt.Sprintf("it has more than %d signatures; none of the first was made with this key", maxSignatures)}
			}
			payload, err := repository.Blob(ctx, layer, maxPayload)
			if err != nil {
				return err
			}
			if k.signs(layer.Annotations[annotation], payload, digest) {
				return nil
			}
		}
	}
	if found == 0 {
		return &Error{"it isn't signed in the way that can be checked (the registry has no " + tag(digests[0]) + " beside it); ask whoever publishes it, or leave the key out"}
	}
	return &Error{"it isn't signed with this key; don't use it, or give the key of whoever publishes it"}
}

// tag is where the signatures of a manifest are.
func tag(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".sig" }

// signs reports whether a signature is the key's and for this digest. A signature of
// another image, copied here, is none.
func (k *Key) signs(encoded string, payload []byte, digest string) bool {
	signature, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || !k.Made(signature, payload) {
		return false
	}
	var signed struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	return json.Unmarshal(payload, &signed) == nil && signed.Critical.Image.Digest == digest &&
		signed.Critical.Type == "cosign container image signature"
}
