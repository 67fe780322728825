package certificate

import (
	"bytes"
	"crypto/x509"
	"time"
)

// Held is what is kept for one Service, in PEM.
type Held struct {
	// CA are all authorities to trust, the newest first.
	CA []byte
	// Cert and Key serve.
	Cert, Key []byte
	// NextCert and NextKey are announced: CA has their authority, and they serve next.
	NextCert, NextKey []byte
}

// Facts are what it depends on how it goes on.
type Facts struct {
	// Hosts are the names under which clients ask.
	Hosts []string
	Now   time.Time
	// Trusted says that every client trusts exactly Held.CA.
	Trusted bool
	// Known are the authorities that clients trust, for when Held is lost.
	Known [][]byte
}

// Step is what was done in a Renew.
type Step string

// The steps.
const (
	Kept      Step = "kept"
	Made      Step = "made"
	Announced Step = "announced"
	Changed   Step = "changed"
	Tidied    Step = "tidied" // an authority that has ended, or what didn't belong there
)

// Renew gives what is to be held from now on, one step further at most. Clients must
// come to trust its CA before the next Renew with Trusted. mint makes a pair by Issue
// with Life.
func (h Held) Renew(facts Facts, mint func() (Pair, error)) (Held, Step, error) {
	fresh := h
	fresh.CA = authorities(facts.Now, h.CA)
	current := Serves(fresh.CA, h.Cert, h.Key, facts.Hosts, facts.Now)
	next := Serves(fresh.CA, h.NextCert, h.NextKey, facts.Hosts, facts.Now)
	switch {
	case next != nil && (current == nil || facts.Trusted && !facts.Now.Before(settled(next))):
		fresh.Cert, fresh.Key, fresh.NextCert, fresh.NextKey = h.NextCert, h.NextKey, nil, nil
		return fresh, Changed, nil
	case current == nil:
		pair, err := mint()
		if err != nil {
			return h, Kept, err
		}
		known := append([][]byte{pair.CA, h.CA}, facts.Known...)
		return Held{CA: authorities(facts.Now, known...), Cert: pair.Cert, Key: pair.Key}, Made, nil
	case next == nil && !facts.Now.Before(due(current)):
		pair, err := mint()
		if err != nil {
			return h, Kept, err
		}
		fresh.CA = authorities(facts.Now, pair.CA, fresh.CA)
		fresh.NextCert, fresh.NextKey = pair.Cert, pair.Key
		return fresh, Announced, nil
	case next == nil:
		fresh.NextCert, fresh.NextKey = nil, nil
	}
	if fresh.equal(h) {
		return h, Kept, nil
	}
	return fresh, Tidied, nil
}

func (h Held) equal(other Held) bool {
	return bytes.Equal(h.CA, other.CA) && bytes.Equal(h.NextCert, other.NextCert) && bytes.Equal(h.NextKey, other.NextKey)
}

// due is when two thirds of a certificate's life are over.
func due(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) * 2 / 3)
}

// settled is when an announced certificate may serve.
func settled(c *x509.Certificate) time.Time { return c.NotBefore.Add(skew + Settle) }
