package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hosts = []string{"dolphin-service.a-name-that-is-as-long-as-a-name-of-a-namespace-can-possibly-be.svc", "dolphin-service.sea.svc.cluster.local"}
)

func minted(t interface{ Fatal(...any) }, now time.Time) func() (Pair, error) {
	return func() (Pair, error) {
		pair, err := Issue(rand.Reader, hosts, now, Life)
		if err != nil {
			t.Fatal(err)
		}
		return pair, nil
	}
}

// TestALife goes through a life of a certificate and its renewal, step by step.
func TestALife(t *testing.T) {
	var held Held
	var pod Held // serves with what it has read last
	now := began
	for _, each := range []struct {
		after   time.Duration
		trusted bool
		want    Step
		trusts  int
	}{
		{0, true, Made, 1},
		{0, true, Kept, 1},
		{242 * 24 * time.Hour, true, Kept, 1},
		{2 * 24 * time.Hour, true, Announced, 2},
		{Settle, false, Kept, 2},
		{0, true, Changed, 2},
		{time.Minute, true, Kept, 2},
		{120 * 24 * time.Hour, true, Kept, 2},
		{2 * 24 * time.Hour, true, Tidied, 1},
		{time.Second, true, Kept, 1},
	} {
		now = now.Add(each.after)
		next, step, err := held.Renew(Facts{Hosts: hosts, Now: now, Trusted: each.trusted}, minted(t, now))
		if err != nil || step != each.want || len(read(next.CA)) != each.trusts {
			t.Fatalf("at %s: %s, not %s; %d are trusted, not %d; %v", now.Sub(began), step, each.want, len(read(next.CA)), each.trusts, err)
		}
		held = next
		if pod.Cert != nil && each.want != Tidied && Serves(held.CA, pod.Cert, pod.Key, hosts, now) == nil {
			t.Errorf("at %s: a pod that hasn't read the new one is refused", now.Sub(began))
		}
		if each.want == Made || each.want == Tidied {
			pod = held
		}
	}
}

// TestNeverRefused: whatever the order of passes, of writes to clients, of pods that
// read late, and of losses of what is held: what serves is trusted, once it is
// written, and a lost key never comes back.
func TestNeverRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := began
		var held Held
		client := [2][]byte{}
		served, losses := Held{}, 0
		for range rapid.IntRange(5, 15).Draw(t, "passes") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, Settle, Settle, Life / 24, Life / 4}).Draw(t, "later"))
			trusted := bytes.Equal(client[0], held.CA) && bytes.Equal(client[1], held.CA)
			// Where nothing serves any more, whatever is held is written at once.
			anew := Serves(held.CA, held.Cert, held.Key, hosts, now) == nil
			next, step, err := held.Renew(Facts{Hosts: hosts, Now: now, Trusted: trusted, Known: client[:]}, minted(t, now))
			if err != nil {
				t.Fatal(err)
			}
			if Serves(next.CA, next.Cert, next.Key, hosts, now) == nil {
				t.Fatalf("%s: what is held isn't trusted", step)
			}
			held = next
			for i := range client {
				if anew || rapid.Bool().Draw(t, "the client is written") {
					client[i] = held.CA
				}
			}
			if served.Cert == nil || rapid.Bool().Draw(t, "the pod reads") || now.After(read(served.Cert)[0].NotAfter) {
				served = held
			}
			for i := range client {
				if Serves(client[i], served.Cert, served.Key, hosts, now) == nil {
					t.Fatalf("%s: client %d refuses what serves", step, i)
				}
			}
			if losses < 2 && rapid.IntRange(0, 9).Draw(t, "lost") == 9 { // pods go on with what they have read
				held = Held{}
				losses++
			}
		}
	})
}

// TestDamage: what doesn't fit together is made anew, and what pods still serve with
// stays trusted.
func TestDamage(t *testing.T) {
	good, _, err := Held{}.Renew(Facts{Hosts: hosts, Now: began}, minted(t, began))
	if err != nil {
		t.Fatal(err)
	}
	other, _ := minted(t, began)()
	announced := good
	announced.CA = authorities(began, other.CA, good.CA)
	announced.NextCert, announced.NextKey = other.Cert, other.Key
	forever, err := Issue(rand.Reader, hosts, began, LongLife)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*Held)) Held { h := good; change(&h); return h }
	for name, each := range map[string]struct {
		held   Held
		known  []byte
		want   Step
		trusts int
	}{
		"good":                          {good, nil, Kept, 1},
		"nothing":                       {Held{}, good.CA, Made, 2},
		"no text":                       {with(func(h *Held) { h.Cert = []byte("x") }), nil, Made, 2},
		"another's key":                 {with(func(h *Held) { h.Key = other.Key }), nil, Made, 2},
		"no authority":                  {with(func(h *Held) { h.CA = nil }), good.CA, Made, 2},
		"another's authority":           {with(func(h *Held) { h.CA = other.CA }), nil, Made, 2},
		"an authority too many, broken": {with(func(h *Held) { h.CA = append([]byte("x\n"), h.CA...) }), nil, Tidied, 1},
		"an authority for ever":         {with(func(h *Held) { h.CA = append(bytes.Clone(h.CA), forever.CA...) }), nil, Tidied, 1},
		"a certificate as authority":    {with(func(h *Held) { h.CA = append(bytes.Clone(h.CA), h.Cert...) }), nil, Tidied, 1},
		"half of a next":                {with(func(h *Held) { h.NextCert = other.Cert }), nil, Tidied, 1},
		"lost while another is there":   {Held{CA: announced.CA, NextCert: other.Cert, NextKey: other.Key}, nil, Changed, 2},
		"announced":                     {announced, nil, Kept, 2},
	} {
		next, step, err := each.held.Renew(Facts{Hosts: hosts, Now: began, Trusted: true, Known: [][]byte{each.known}}, minted(t, began))
		if err != nil || step != each.want || len(read(next.CA)) != each.trusts {
			t.Errorf("%s: %s, not %s; %d are trusted, not %d; %v", name, step, each.want, len(read(next.CA)), each.trusts, err)
		}
		if Serves(next.CA, next.Cert, next.Key, hosts, began) == nil {
			t.Errorf("%s: it doesn't serve", name)
		}
		if again, step, err := next.Renew(Facts{Hosts: hosts, Now: began, Trusted: true}, minted(t, began)); err != nil || step != Kept || !again.equal(next) {
			t.Errorf("%s: the second time it is %s; %v", name, step, err)
		}
	}
	if _, _, err := (Held{}).Renew(Facts{Hosts: hosts, Now: began}, func() (Pair, error) { return Pair{}, errors.New("no randomness") }); err == nil {
		t.Error("no error")
	}
	if Serves(good.CA, good.Cert, good.Key, []string{"other.sea.svc"}, began) != nil || Serves(good.CA, good.Cert, good.Key, hosts, began.Add(Life+time.Second)) != nil ||
		Serves(good.CA, good.Cert, good.Key, hosts, began.Add(-2*skew)) != nil {
		t.Error("it serves another host, or at another time")
	}
	if _, err := Issue(rand.Reader, nil, began, Life); err == nil {
		t.Error("a certificate for nobody")
	}
}

// TestTakenOver: what cert-manager's self-signed issuer made serves on until it is due,
// and is trusted where it is lost but still served by pods.
func TestTakenOver(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: hosts, NotBefore: began, NotAfter: began.Add(90 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	theirs := Held{CA: inPEM(der), Cert: inPEM(der), Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
	if _, step, err := theirs.Renew(Facts{Hosts: hosts, Now: began, Trusted: true}, minted(t, began)); err != nil || step != Kept {
		t.Errorf("it is %s, %v", step, err)
	}
	due := began.Add(61 * 24 * time.Hour)
	if _, step, err := theirs.Renew(Facts{Hosts: hosts, Now: due, Trusted: true}, minted(t, due)); err != nil || step != Announced {
		t.Errorf("when it is due it is %s, %v", step, err)
	}
	next, step, err := Held{}.Renew(Facts{Hosts: hosts, Now: began, Known: [][]byte{theirs.CA}}, minted(t, began))
	if err != nil || step != Made || Serves(next.CA, theirs.Cert, theirs.Key, hosts, began) == nil {
		t.Errorf("lost, it is %s, %v", step, err)
	}
}
