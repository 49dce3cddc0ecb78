package rdd

import (
	"container/list"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// cache holds blocks: in memory while they fit; beyond that the least recently used ones on disk. A block is lost only
// with its executor.
type cache struct {
	dir   string
	limit int64

	mu     sync.Mutex
	blocks map[plan.Block]*cached
	recent *list.List // blocks in memory, the most recently used first
	used   int64
}

// cached is a block: in memory as a slice, or on disk.
type cached struct {
	block   plan.Block
	kind    kind
	slice   any
	bytes   int64
	path    string
	element *list.Element
}

func newCache(dir string, limit int64) *cache {
	return &cache{dir: dir, limit: limit, blocks: map[plan.Block]*cached{}, recent: list.New()}
}

// get returns the block as a sequence. The caller must call closing when it has read it.
func (c *cache) get(block plan.Block) (seq any, closing func() error, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, found := c.blocks[block]
	if !found {
		return nil, nil, false
	}
	if b.path == "" {
		c.recent.MoveToFront(b.element)
		return b.kind.seq(b.slice), func() error { return nil }, true
	}
	file, err := os.Open(b.path)
	if err != nil {
		return nil, nil, false // then it is as if it had never been computed
	}
	return b.kind.decode(file), file.Close, true
}

// put adds a block; other blocks make room for it.
func (c *cache) put(block plan.Block, kind kind, slice any) error {
	b := &cached{block: block, kind: kind, slice: slice, bytes: kind.bytes(slice)}
	c.mu.Lock()
	defer c.mu.Unlock()
	b.element = c.recent.PushFront(b)
	c.blocks[block], c.used = b, c.used+b.bytes
	for c.used > c.limit {
		if err := c.spill(c.recent.Back().Value.(*cached)); err != nil {
			return err
		}
	}
	return nil
}

// spill moves a block to disk.
func (c *cache) spill(b *cached) error {
	path := filepath.Join(c.dir, fmt.Sprintf("block-%d-%d", b.block.Node, b.block.Partition))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := b.kind.encode(file, b.kind.seq(b.slice)); err != nil {
		return err
	}
	c.recent.Remove(b.element)
	b.slice, b.path, b.element = nil, path, nil
	c.used -= b.bytes
	return file.Close()
}
