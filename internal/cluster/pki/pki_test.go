package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/cluster/pki"
)

func TestIssuedCertificates(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	made, err := pki.NewAuthority("test", now)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.LoadAuthority(made.Pair) // as after a restart
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(made.Certificate) {
		t.Fatal("the authority's certificate can't be read")
	}
	for name, c := range map[string]struct {
		subject pki.Subject
		host    string
		usage   x509.ExtKeyUsage
		valid   bool
	}{
		"server by name":       {pki.Subject{Name: "s", Hosts: []string{"a.example", "10.0.0.1"}}, "a.example", x509.ExtKeyUsageServerAuth, true},
		"server by address":    {pki.Subject{Name: "s", Hosts: []string{"a.example", "10.0.0.1"}}, "10.0.0.1", x509.ExtKeyUsageServerAuth, true},
		"another server":       {pki.Subject{Name: "s", Hosts: []string{"a.example"}}, "b.example", x509.ExtKeyUsageServerAuth, false},
		"client":               {pki.Subject{Name: "c", Groups: []string{"g"}}, "", x509.ExtKeyUsageClientAuth, true},
		"client as the server": {pki.Subject{Name: "c"}, "", x509.ExtKeyUsageServerAuth, false},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := authority.Issue(c.subject, now)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tls.X509KeyPair(pair.Certificate, pair.Key); err != nil {
				t.Fatalf("the key doesn't fit: %v", err)
			}
			block, _ := pem.Decode(pair.Certificate)
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			_, err = certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: c.host, KeyUsages: []x509.ExtKeyUsage{c.usage}, CurrentTime: now})
			if (err == nil) != c.valid {
				t.Errorf("verification says %v, want valid %t", err, c.valid)
			}
			if got := certificate.Subject; got.CommonName != c.subject.Name || len(got.Organization) != len(c.subject.Groups) {
				t.Errorf("the certificate is for %v", got)
			}
		})
	}
}

func TestLoadAuthorityRefusesGarbage(t *testing.T) {
	if _, err := pki.LoadAuthority(pki.Pair{Certificate: []byte("x"), Key: []byte("y")}); err == nil {
		t.Error("garbage is taken for an authority")
	}
}
