// Package clerks has concurrent clients that read and write a framework's store, and record what they asked and were
// answered, for package history to judge. Only tests use it.
package clerks

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/testing/history"
)

// Clerk is a client that works on a few keys. It is for one goroutine.
type Clerk struct {
	random *rand.Rand
	keys   int
	seen   map[string]uint64 // versions
}

// New makes a clerk for that many keys; random decides what it does.
func New(random *rand.Rand, keys int) *Clerk {
	return &Clerk{random, keys, make(map[string]uint64)}
}

// Draw decides what to ask next: reads, writes of the value, and deletions. Half of the writes and deletions have the
// condition that nobody else has changed the key.
func (c *Clerk) Draw(value string) history.Op {
	op := history.Op{Kind: history.Get, Key: c.key()}
	switch n := c.random.IntN(10); {
	case n < 5:
		op.Kind, op.Value, op.Version = history.Put, value, history.Any
	case n < 6:
		op.Kind, op.Version = history.Delete, history.Any
	}
	if op.Kind != history.Get && c.random.IntN(2) == 0 {
		op.Version = c.seen[op.Key]
	}
	return op
}

func (c *Clerk) key() string { return fmt.Sprintf("key-%d", c.random.IntN(c.keys)) }

// Put returns a write of the value to a random key, without a condition.
func (c *Clerk) Put(value string) history.Op {
	return history.Op{Kind: history.Put, Key: c.key(), Value: value, Version: history.Any}
}

// Ask makes the call, until ctx ends, and remembers the version that it was told.
func (c *Clerk) Ask(ctx context.Context, store *framework.Store, op history.Op) history.Got {
	got := ask(ctx, store, op)
	if !got.Stale && !got.Unknown {
		c.seen[op.Key] = got.Version
	}
	return got
}

func ask(ctx context.Context, store *framework.Store, op history.Op) history.Got {
	var entry framework.Entry
	var err error
	switch op.Kind {
	case history.Get:
		entry, err = store.Get(ctx, op.Key)
	case history.Put:
		entry, err = store.Put(ctx, op.Key, []byte(op.Value), op.Version)
	case history.Delete:
		err = store.Delete(ctx, op.Key, op.Version)
	}
	switch {
	case api.Is(err, api.Stale):
		return history.Got{Stale: true}
	case err != nil:
		return history.Got{Unknown: true}
	case op.Kind == history.Get:
		return history.Got{Version: entry.Version, Value: string(entry.Value)}
	}
	return history.Got{Version: entry.Version}
}
