// Package certificate holds the serving certificates of webhooks that nobody else
// makes: how one is made, and when which takes the place of another. It is pure: the
// clock and randomness come from outside, and it writes nothing.
//
// Each certificate has an authority of its own, whose key is thrown away once it has
// signed. So no key is kept but the one that serves, and to renew a certificate is to
// bring a new authority, always along the same way:
//
//	held                            what follows
//	nothing, or what doesn't fit    made anew; authorities that are known stay trusted
//	two thirds of its life are over the next is announced: both authorities are trusted
//	announced, and trusted a while  the next serves
//	an authority has ended          it is trusted no more
//
// An authority ends with the certificate that it has signed. Until then whoever
// still serves with that certificate isn't refused.
package certificate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"
)

// Life is how long a certificate is good that somebody renews.
const Life = 365 * 24 * time.Hour

// LongLife is how long one is good that nobody renews.
const LongLife = 10 * Life

// skew allows for clocks that go differently.
const skew = time.Hour

// Settle is how long the next certificate waits, so that every API server has read
// that its authority is trusted.
const Settle = time.Minute

// Pair is a certificate, its private key, and the authority that signed it, in PEM.
type Pair struct{ CA, Cert, Key []byte }

// Issue makes a certificate that serves hosts, the first of which names it, and an
// authority for it, whose key isn't kept.
func Issue(random io.Reader, hosts []string, now time.Time, life time.Duration) (Pair, error) {
	if len(hosts) == 0 {
		return Pair{}, errors.New("a certificate needs the name of a host")
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	authority, err := template(random, "CA of "+hosts[0], now, life)
	if err != nil {
		return Pair{}, err
	}
	authority.IsCA, authority.BasicConstraintsValid, authority.MaxPathLenZero = true, true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	ca, err := x509.CreateCertificate(random, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the authority of %s: %w", hosts[0], err)
	}
	if authority, err = x509.ParseCertificate(ca); err != nil {
		return Pair{}, fmt.Errorf("read the authority of %s: %w", hosts[0], err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	leaf, err := template(random, hosts[0], now, life)
	if err != nil {
		return Pair{}, err
	}
	leaf.DNSNames, leaf.KeyUsage = hosts, x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	cert, err := x509.CreateCertificate(random, leaf, authority, key.Public(), authorityKey)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate of %s: %w", hosts[0], err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode the key of %s: %w", hosts[0], err)
	}
	return Pair{CA: inPEM(ca), Cert: inPEM(cert), Key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})}, nil
}

// AnnotationInjectCA asks cert-manager to write the authority of a Certificate, as
// "namespace/name", into the caBundle of an object (cert-manager.io/docs/concepts/ca-injector).
const AnnotationInjectCA = "cert-manager.io/inject-ca-from"

// mostCommonName is what X.520 takes, in bytes. Who serves is told by the other names.
const mostCommonName = 64

func template(random io.Reader, name string, now time.Time, life time.Duration) (*x509.Certificate, error) {
	number := make([]byte, 16)
	if _, err := io.ReadFull(random, number); err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	number[0] &= 0x7f // X.509 wants it positive
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(number),
		Subject:      pkix.Name{CommonName: name[:min(len(name), mostCommonName)]},
		NotBefore:    now.Add(-skew), NotAfter: now.Add(life),
	}, nil
}

func inPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// read gives the certificates of a text, without what is none.
func read(text []byte) []*x509.Certificate {
	var found []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return found
		}
		if parsed, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			found = append(found, parsed)
		}
	}
}

// Serves gives the certificate of a pair if clients that trust ca are served with it
// under every one of hosts; nil if they are refused.
func Serves(ca, cert, key []byte, hosts []string, now time.Time) *x509.Certificate {
	chain := read(cert)
	if len(chain) == 0 || !fits(chain[0], key) {
		return nil
	}
	roots := x509.NewCertPool()
	for _, each := range read(ca) {
		roots.AddCert(each)
	}
	between := x509.NewCertPool()
	for _, each := range chain[1:] {
		between.AddCert(each)
	}
	for _, host := range hosts {
		_, err := chain[0].Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: between, DNSName: host, CurrentTime: now,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
		if err != nil {
			return nil
		}
	}
	return chain[0]
}

// fits reports whether a key in PEM is that of a certificate.
func fits(cert *x509.Certificate, key []byte) bool {
	block, _ := pem.Decode(key)
	if block == nil {
		return false
	}
	public, is := cert.PublicKey.(interface {
		Equal(other crypto.PublicKey) bool
	})
	if !is {
		return false
	}
	for _, parse := range []func([]byte) (any, error){
		func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) },
		func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) },
		x509.ParsePKCS8PrivateKey,
	} {
		private, err := parse(block.Bytes)
		signer, is := private.(crypto.Signer)
		if err == nil && is {
			return public.Equal(signer.Public())
		}
	}
	return false
}

// authorities joins texts of authorities: each once, in their order, without those
// that have ended, and without those that outlive whatever is made here.
func authorities(now time.Time, texts ...[]byte) []byte {
	var joined []byte
	count := 0
	for _, each := range read(bytes.Join(texts, []byte("\n"))) {
		text := inPEM(each.Raw)
		if !isRoot(each) || now.After(each.NotAfter) || each.NotAfter.After(now.Add(Life+skew)) || bytes.Contains(joined, text) || count == mostTrusted {
			continue
		}
		joined = append(joined, text...)
		count++
	}
	return joined
}

// isRoot reports whether clients can trust a certificate by itself: an authority, or one
// that is signed with its own key, such as those of cert-manager's self-signed issuer.
func isRoot(c *x509.Certificate) bool {
	return c.IsCA || c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

// mostTrusted bounds the authorities of one webhook.
const mostTrusted = 4
