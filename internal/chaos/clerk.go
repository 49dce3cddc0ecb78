package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/history"
)

const (
	clerks      = 3 // of each scheduler
	clerkKeys   = 5
	clerkEvery  = 500 * time.Millisecond
	clerkWaits  = 5 * time.Second // for an answer
	putFatEvery = 40 * time.Millisecond
	fatBytes    = 4000
)

// clerk reads and writes the store for as long as the process lives. What it asks goes to
// the journal before, what it is answered afterwards, so that the order of the lines is one
// in which things may have happened.
func (s *scheduler) clerk(id int) {
	seen := map[string]uint64{} // versions
	for n := 0; s.ctx.Err() == nil && !s.stopping(); n++ {
		name, every := fmt.Sprintf("%s-%d-%d-%d", s.name, os.Getpid(), id, n), clerkEvery
		op := drawOp(seen, name)
		if s.told("fat") { // to fill a disk
			op, every = history.Op{Kind: history.Put, Key: op.Key, Value: name + strings.Repeat(".", fatBytes), Version: history.Any}, putFatEvery
		}
		if s.journal.say("ask", name, string(op.Kind), op.Key, op.Value, strconv.FormatUint(op.Version, 10)) != nil {
			continue // a write that nobody would know of
		}
		got := s.ask(op)
		if !got.Unknown && !got.Stale {
			seen[op.Key] = got.Version
		}
		_ = s.journal.say("answer", name, strconv.FormatUint(got.Version, 10), got.Value, outcome(got))
		pause(s.ctx, every)
	}
}

func drawOp(seen map[string]uint64, value string) history.Op {
	op := history.Op{Kind: history.Get, Key: fmt.Sprintf("key-%d", rand.IntN(clerkKeys))}
	switch n := rand.IntN(10); {
	case n < 5:
		op.Kind, op.Value, op.Version = history.Put, value, history.Any
	case n < 6:
		op.Kind, op.Version = history.Delete, history.Any
	}
	if op.Kind != history.Get && rand.IntN(2) == 0 {
		op.Version = seen[op.Key]
	}
	return op
}

func (s *scheduler) ask(op history.Op) history.Got {
	ctx, cancel := context.WithTimeout(s.ctx, clerkWaits)
	defer cancel()
	var entry framework.Entry
	var err error
	switch op.Kind {
	case history.Get:
		entry, err = s.client.Store().Get(ctx, op.Key)
	case history.Put:
		entry, err = s.client.Store().Put(ctx, op.Key, []byte(op.Value), op.Version)
	case history.Delete:
		err = s.client.Store().Delete(ctx, op.Key, op.Version)
	}
	switch {
	case api.Is(err, api.Stale):
		return history.Got{Stale: true}
	case err != nil:
		return history.Got{Unknown: true}
	case op.Kind != history.Get:
		entry.Value = nil
	}
	return history.Got{Version: entry.Version, Value: string(entry.Value)}
}

func outcome(got history.Got) string {
	switch {
	case got.Stale:
		return "stale"
	case got.Unknown:
		return "unknown"
	}
	return "done"
}
