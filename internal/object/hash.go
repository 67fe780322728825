package object

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"math"
	"slices"
	"sync"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Digest is the hash of a value.
type Digest [16]byte

// String is the digest in 32 hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Hash is the hash of a value's JSON form: equal for equal documents whatever
// the order of their fields, and the same in every release and process. It
// walks maps, lists and scalars as they are; any other type goes through JSON
// first. A value that has no JSON form (a channel, a cycle) counts as its type.
func Hash(value any) Digest {
	h := NewHasher()
	h.Value(value)
	return h.Sum()
}

// Hasher builds one digest of several values. It isn't safe for concurrent use,
// and is done after Sum.
type Hasher struct {
	hash    hash.Hash
	scratch []byte
}

var hashers = sync.Pool{New: func() any { return &Hasher{hash: sha256.New(), scratch: make([]byte, 0, 256)} }}

// NewHasher is an empty hasher.
func NewHasher() *Hasher {
	h := hashers.Get().(*Hasher) //nolint:forcetypeassert // the pool holds nothing else
	h.hash.Reset()
	return h
}

// Sum is the digest of all that was written, and ends the hasher's use.
func (h *Hasher) Sum() Digest {
	var sum [sha256.Size]byte
	h.hash.Sum(sum[:0])
	hashers.Put(h)
	return Digest(sum[:16])
}

// Each value is written as a tag, then its length or bits, then its bytes, so
// that no two different documents write the same.
const (
	tagNull   = 'n'
	tagFalse  = 'f'
	tagTrue   = 't'
	tagInt    = 'i'
	tagFloat  = 'd'
	tagString = 's'
	tagList   = 'l'
	tagMap    = 'm'
	tagOther  = 'o'
)

// Value writes one value.
func (h *Hasher) Value(value any) {
	switch v := value.(type) {
	case nil:
		h.tag(tagNull, 0)
	case bool:
		if v {
			h.tag(tagTrue, 0)
		} else {
			h.tag(tagFalse, 0)
		}
	case string:
		h.text(tagString, v)
	case int:
		h.tag(tagInt, uint64(v))
	case int32:
		h.tag(tagInt, uint64(v))
	case int64:
		h.tag(tagInt, uint64(v))
	case float64:
		h.float(v)
	case map[string]any:
		h.object(v)
	case []any:
		h.tag(tagList, uint64(len(v)))
		for _, each := range v {
			h.Value(each)
		}
	default:
		h.other(v)
	}
}

// float writes a whole number as the integer that JSON makes of it.
func (h *Hasher) float(v float64) {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		h.tag(tagInt, uint64(int64(v)))
		return
	}
	h.tag(tagFloat, math.Float64bits(v))
}

func (h *Hasher) object(v map[string]any) {
	h.tag(tagMap, uint64(len(v)))
	keys := make([]string, 0, len(v))
	for key := range v {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		h.text(tagString, key)
		h.Value(v[key])
	}
}

func (h *Hasher) other(v any) {
	raw, err := json.Marshal(v)
	var plain any
	if err == nil {
		err = utiljson.Unmarshal(raw, &plain)
	}
	if err != nil {
		h.text(tagOther, fmt.Sprintf("%T", v))
		return
	}
	h.Value(plain)
}

func (h *Hasher) tag(tag byte, bits uint64) {
	h.scratch = append(h.scratch[:0], tag)
	h.scratch = binary.BigEndian.AppendUint64(h.scratch, bits)
	h.hash.Write(h.scratch)
}

func (h *Hasher) text(tag byte, text string) {
	h.scratch = append(h.scratch[:0], tag)
	h.scratch = binary.BigEndian.AppendUint64(h.scratch, uint64(len(text)))
	h.scratch = append(h.scratch, text...)
	h.hash.Write(h.scratch)
}
