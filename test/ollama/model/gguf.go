package model

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

// The file format is GGUF version 3, as ggml's docs/gguf.md describes it.
const (
	ggufMagic     = "GGUF"
	ggufVersion   = 3
	ggufAlignment = 32
)

// The types of values, by ggml's numbers.
const (
	typeUint32  uint32 = 4
	typeInt32   uint32 = 5
	typeFloat32 uint32 = 6
	typeBool    uint32 = 7
	typeString  uint32 = 8
	typeArray   uint32 = 9

	tensorFloat32 uint32 = 0
)

// tensor is a matrix of rows of equal length, or a vector of one row.
type tensor struct {
	name   string
	row    int
	values []float32
}

// file gathers what goes into a GGUF file, in the order it is added.
type file struct {
	header  bytes.Buffer
	keys    uint64
	tensors []tensor
}

func number(b *bytes.Buffer, value any) {
	// A bytes.Buffer takes everything, and the values are of fixed sizes.
	_ = binary.Write(b, binary.LittleEndian, value)
}

func text(b *bytes.Buffer, value string) {
	number(b, uint64(len(value)))
	b.WriteString(value)
}

// set adds a key.
func (f *file) set(key string, value any) {
	f.keys++
	text(&f.header, key)
	b := &f.header
	switch v := value.(type) {
	case uint32:
		number(b, typeUint32)
		number(b, v)
	case float32:
		number(b, typeFloat32)
		number(b, v)
	case bool:
		number(b, typeBool)
		number(b, v)
	case string:
		number(b, typeString)
		text(b, v)
	case []string:
		number(b, typeArray)
		number(b, typeString)
		number(b, uint64(len(v)))
		for _, item := range v {
			text(b, item)
		}
	case []int32:
		number(b, typeArray)
		number(b, typeInt32)
		number(b, uint64(len(v)))
		number(b, v)
	default:
		panic("a GGUF value of another type")
	}
}

// add adds a tensor whose rows have the given length.
func (f *file) add(name string, row int, values []float32) {
	f.tensors = append(f.tensors, tensor{name: name, row: row, values: values})
}

// bytes is the whole file.
func (f *file) bytes() []byte {
	var out bytes.Buffer
	out.WriteString(ggufMagic)
	number(&out, uint32(ggufVersion))
	number(&out, uint64(len(f.tensors)))
	number(&out, f.keys)
	out.Write(f.header.Bytes())
	offset := 0
	for _, t := range f.tensors {
		text(&out, t.name)
		// The length of a row comes first.
		shape := []uint64{uint64(t.row), uint64(len(t.values) / t.row)}
		if shape[1] == 1 {
			shape = shape[:1]
		}
		number(&out, uint32(len(shape)))
		number(&out, shape)
		number(&out, tensorFloat32)
		number(&out, uint64(offset))
		offset += aligned(4 * len(t.values))
	}
	pad(&out)
	for _, t := range f.tensors {
		for _, value := range t.values {
			number(&out, math.Float32bits(value))
		}
		pad(&out)
	}
	return slices.Clip(out.Bytes())
}

func aligned(length int) int { return (length + ggufAlignment - 1) / ggufAlignment * ggufAlignment }

func pad(b *bytes.Buffer) {
	b.Write(make([]byte, aligned(b.Len())-b.Len()))
}
