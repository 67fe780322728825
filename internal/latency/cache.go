package latency

import (
	"encoding/binary"
	"hash/fnv"
)

// Block names the content of a KV-cache block together with everything before
// it: two prompts share a block exactly when they agree up to its end.
type Block uint64

// Blocks cuts a prompt into its full blocks of size tokens and names them.
// Salt tells apart what must not share blocks: models, adapters, hash seeds.
// A rest that fills no block has none, as in vLLM.
func Blocks(salt string, tokens []uint32, size int) []Block {
	if size <= 0 || len(tokens) < size {
		return nil
	}
	blocks := make([]Block, 0, len(tokens)/size)
	hash := fnv.New64a()
	hash.Write([]byte(salt))
	parent := hash.Sum64()
	var word [8]byte
	for start := 0; start+size <= len(tokens); start += size {
		hash.Reset()
		binary.LittleEndian.PutUint64(word[:], parent)
		hash.Write(word[:])
		for _, token := range tokens[start : start+size] {
			binary.LittleEndian.PutUint32(word[:4], token)
			hash.Write(word[:4])
		}
		parent = hash.Sum64()
		blocks = append(blocks, Block(parent))
	}
	return blocks
}

// Cache is a prefix cache of a bounded number of blocks. Blocks of running
// requests are held; those of finished ones stay until room is needed, and
// then the one that was used longest ago goes first.
type Cache struct {
	size  int
	held  int
	items map[Block]*entry
	idle  entry // ring of the blocks that nobody holds, oldest first
}

type entry struct {
	block      Block
	holders    int
	prev, next *entry
}

// NewCache makes a cache of size blocks.
func NewCache(size int) *Cache {
	c := &Cache{size: size, items: map[Block]*entry{}}
	c.idle.prev, c.idle.next = &c.idle, &c.idle
	return c
}

// Peek returns how many of the leading blocks are cached, and changes nothing.
func (c *Cache) Peek(blocks []Block) int {
	for i, block := range blocks {
		if c.items[block] == nil {
			return i
		}
	}
	return len(blocks)
}

// Acquire holds a prompt's blocks for a request that starts. It returns how
// many leading blocks were there already, and the blocks that it holds now:
// when the cache is full of held blocks, those are fewer than asked for.
func (c *Cache) Acquire(blocks []Block) (hits int, held []Block) {
	hits = c.Peek(blocks)
	for i, block := range blocks {
		item := c.items[block]
		switch {
		case item == nil && len(c.items) >= c.size && !c.evict():
			return hits, blocks[:i]
		case item == nil:
			item = &entry{block: block}
			c.items[block] = item
		case item.holders == 0:
			item.unlink()
		}
		if item.holders == 0 {
			c.held++
		}
		item.holders++
	}
	return hits, blocks
}

// Release gives back what Acquire held. The end of a prompt is given up for
// eviction before its beginning, since more prompts share the beginning.
func (c *Cache) Release(held []Block) {
	for i := len(held) - 1; i >= 0; i-- {
		item := c.items[held[i]]
		if item == nil || item.holders == 0 {
			continue
		}
		if item.holders--; item.holders == 0 {
			c.held--
			last := c.idle.prev
			item.prev, item.next = last, &c.idle
			last.next, c.idle.prev = item, item
		}
	}
}

// Len returns how many blocks are cached, held or not.
func (c *Cache) Len() int { return len(c.items) }

// Usage returns the share of blocks that running requests hold, from 0 to 1.
func (c *Cache) Usage() float64 {
	if c.size == 0 {
		return 0
	}
	return float64(c.held) / float64(c.size)
}

// Clear drops what nobody holds.
func (c *Cache) Clear() {
	for c.evict() {
	}
}

// evict drops the block that was used longest ago, and tells whether any could
// go.
func (c *Cache) evict() bool {
	oldest := c.idle.next
	if oldest == &c.idle {
		return false
	}
	oldest.unlink()
	delete(c.items, oldest.block)
	return true
}

func (e *entry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}
