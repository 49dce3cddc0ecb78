package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/internal/testing/clerks"
	"github.com/tenderhq/tender/internal/testing/history"
)

const (
	clerksEach  = 3 // in each scheduler
	clerkKeys   = 5
	clerkEvery  = 500 * time.Millisecond
	clerkWaits  = 5 * time.Second // for an answer
	putFatEvery = 40 * time.Millisecond
	fatBytes    = 4000
)

// clerk reads and writes the store for as long as the process lives. It writes a call to the journal before it is made,
// and its answer after it has come. So the order of the lines is one in which things may have happened.
func (s *scheduler) clerk(id int) {
	clerk := clerks.New(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), clerkKeys)
	for n := 0; s.ctx.Err() == nil && !s.stopping(); n++ {
		name, every := fmt.Sprintf("%s-%d-%d-%d", s.name, os.Getpid(), id, n), clerkEvery
		op := clerk.Draw(name)
		if s.told(quiet) {
			pause(s.ctx, every)
			continue
		}
		if s.told("fat") { // to fill a disk
			op, every = clerk.Put(name+strings.Repeat(".", fatBytes)), putFatEvery
		}
		if s.journal.say("ask", name, string(op.Kind), op.Key, op.Value, strconv.FormatUint(op.Version, 10)) != nil {
			continue // nobody would know of such a write
		}
		ctx, cancel := context.WithTimeout(s.ctx, clerkWaits)
		got := clerk.Ask(ctx, s.client.Store(), op)
		cancel()
		_ = s.journal.say("answer", name, strconv.FormatUint(got.Version, 10), got.Value, outcome(got))
		pause(s.ctx, every)
	}
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
