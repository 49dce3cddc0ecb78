package rdd

import (
	"container/list"
	"context"
	"fmt"
	"io"
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

	mu      sync.Mutex
	blocks  map[plan.Block]*cached
	recent  *list.List // blocks in memory, the most recently used first
	used    int64
	spilled int
	hits    map[plan.NodeID]int
}

// held tells what an executor has in its cache of a dataset.
type held struct {
	Memory, Disk int   // number of blocks
	Bytes        int64 // size of the blocks in memory
	Hits         int   // number of reads so far that found a block
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
	return &cache{dir: dir, limit: limit, blocks: map[plan.Block]*cached{}, recent: list.New(), hits: map[plan.NodeID]int{}}
}

// get returns the block as a sequence, which ends early when ctx ends. The caller must call closing when it has read
// it.
func (c *cache) get(ctx context.Context, block plan.Block) (seq any, closing func() error, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, found := c.blocks[block]
	if !found {
		return nil, nil, false
	}
	c.hits[block.Node]++
	if b.path == "" {
		c.recent.MoveToFront(b.element)
		return b.kind.seq(ctx, b.slice), func() error { return nil }, true
	}
	file, err := os.Open(b.path)
	if err != nil {
		return nil, nil, false // then it is as if it had never been computed
	}
	return b.kind.decode(heeding{ctx, file}), file.Close, true
}

// holds tells what the cache has of each dataset.
func (c *cache) holds() map[plan.NodeID]held {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[plan.NodeID]held{}
	// order: irrelevant because they are added up
	for block, b := range c.blocks {
		one := all[block.Node]
		if one.Hits = c.hits[block.Node]; b.path == "" {
			one.Memory++
			one.Bytes += b.bytes
		} else {
			one.Disk++
		}
		all[block.Node] = one
	}
	return all
}

// open returns a function that writes the block as the bytes that are sent to other executors.
func (c *cache) open(ctx context.Context, block plan.Block) (write func(to io.Writer) error, found bool) {
	seq, closing, found := c.get(ctx, block)
	if !found {
		return nil, false
	}
	c.mu.Lock()
	kind := c.blocks[block].kind
	c.mu.Unlock()
	return func(to io.Writer) (err error) {
		defer closing()
		defer caught(&err)
		return kind.encode(to, seq)
	}, true
}

// put adds a block; other blocks make room for it.
func (c *cache) put(block plan.Block, kind kind, slice any) error {
	b := &cached{block: block, kind: kind, slice: slice, bytes: kind.bytes(slice)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocks[block] != nil {
		return nil // another copy of the task was faster
	}
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
	if err := b.kind.encode(file, b.kind.seq(context.Background(), b.slice)); err != nil {
		return err
	}
	c.recent.Remove(b.element)
	b.slice, b.path, b.element = nil, path, nil
	c.used, c.spilled = c.used-b.bytes, c.spilled+1
	return file.Close()
}

// drop forgets all blocks of a dataset.
func (c *cache) drop(node plan.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for block, b := range c.blocks {
		if block.Node != node {
			continue
		}
		if b.path == "" {
			c.recent.Remove(b.element)
			c.used -= b.bytes
		} else if err := os.Remove(b.path); err != nil {
			continue // its file is deleted with the sandbox
		}
		delete(c.blocks, block)
	}
}

// caught turns what check has thrown back into an error. Other panics become errors too: if a task's function panics,
// its task fails, not its executor.
func caught(err *error) {
	switch thrown := recover().(type) {
	case nil:
	case failure:
		*err = thrown.error
	default:
		*err = fmt.Errorf("panic: %v", thrown)
	}
}
