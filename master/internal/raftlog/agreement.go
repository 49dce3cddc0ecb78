package raftlog

import (
	"context"
	"errors"

	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// agreement is what the leader asks all other masters each time it looks at its quorum, and writes to the log once they
// agree. Each question runs in a goroutine of its own, one of a kind at a time.
type agreement struct {
	config  *Config
	machine *machine
	loop    *loop
	self    *identity
	others  *others
	reign   *reign

	raising   chan struct{} // holds one entry while all masters are asked which format they know
	comparing chan struct{} // holds one entry while all masters are asked for their hashes
}

// raiseFormat begins to use a newer format once every member of the quorum has said that it can read it (R24). From
// then on the registry requires the format. A master that does not know it can't join, because it refuses to read the
// log.
func (a *agreement) raiseFormat(ctx context.Context, r *life) {
	if !r.leads() || a.reign.current() == nil || max(a.machine.format(), 1) >= a.config.Format {
		return
	}
	select {
	case a.raising <- struct{}{}:
	default:
		return // the question is being asked already
	}
	a.loop.asking.Go(func() { // ends with its questions, each of which has a timeout, or with Raft
		defer func() { <-a.raising }()
		self := quorum.About{ID: a.self.id(), Cluster: a.self.cluster(), Format: a.config.Format}
		format := quorum.AgreedFormat(r.members(), a.others.askAll(r.members()), self)
		if ctx.Err() != nil || max(a.machine.format(), 1) >= format {
			return
		}
		if err := a.reign.applyChange(ctx, r, registry.RaiseFormat{Format: format}); err == nil {
			a.config.Logger.Info().Uint64("format", format).Msg("all masters know the registry's new format")
		}
	})
}

// agreeOnHash asks the other masters for the hashes of their registries, one question at a time, in a goroutine of its
// own.
func (a *agreement) agreeOnHash(ctx context.Context, r *life) {
	own, agreed := a.machine.mark()
	if !r.leads() || a.reign.current() == nil || own.Index <= agreed {
		return
	}
	select {
	case a.comparing <- struct{}{}:
	default:
		return // the question is being asked already
	}
	a.loop.asking.Go(func() { // ends with its questions, each of which has a timeout, or with Raft
		defer func() { <-a.comparing }()
		self := quorum.About{ID: a.self.id(), Cluster: a.self.cluster(), Mark: own}
		hash := quorum.MajorityHash(r.members(), a.others.askAll(r.members()), self)
		switch {
		// Not all masters have applied this entry, or not all answer. The question is asked again at the next look.
		case hash == "" || ctx.Err() != nil:
		case hash != own.Hash:
			a.loop.fail(differs(own, hash))
		default:
			if err := a.reign.applyChange(ctx, r, registry.CheckHash{Index: own.Index, Hash: hash}); err != nil && !errors.Is(err, context.Canceled) {
				a.config.Logger.Debug().Err(err).Msg("the hash of the registry was not logged")
			}
		}
	})
}
