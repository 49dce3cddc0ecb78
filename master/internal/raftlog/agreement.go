package raftlog

import (
	"context"
	"errors"

	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// This file holds the questions that the leader asks the other masters each time it looks at its quorum. They run in
// goroutines of their own.

// raiseFormat begins to use a newer format once every member of the quorum has said that it can read it (R24). From
// then on the registry requires the format. A master that does not know it can't join, because it refuses to read the
// log.
func (l *Log) raiseFormat(ctx context.Context, r *life) {
	if !r.leads() || l.currentLeadership() == nil || max(l.machine.format(), 1) >= l.config.Format {
		return
	}
	select {
	case l.raising <- struct{}{}:
	default:
		return // the question is being asked already
	}
	l.asking.Go(func() { // ends with its questions, each of which has a timeout, or with Raft
		defer func() { <-l.raising }()
		self := quorum.About{ID: l.ID(), Cluster: l.Cluster(), Format: l.config.Format}
		format := quorum.AgreedFormat(r.members(), l.askAll(r.members()), self)
		if ctx.Err() != nil || max(l.machine.format(), 1) >= format {
			return
		}
		if err := l.applyChange(ctx, r, registry.RaiseFormat{Format: format}); err == nil {
			l.config.Logger.Info().Uint64("format", format).Msg("all masters know the registry's new format")
		}
	})
}

// agreeOnHash asks the other masters for the hashes of their registries, one question at a time, in a goroutine of its
// own.
func (l *Log) agreeOnHash(ctx context.Context, r *life) {
	own, agreed := l.machine.mark()
	if !r.leads() || l.currentLeadership() == nil || own.Index <= agreed {
		return
	}
	select {
	case l.comparing <- struct{}{}:
	default:
		return // the question is being asked already
	}
	l.asking.Go(func() { // ends with its questions, each of which has a timeout, or with Raft
		defer func() { <-l.comparing }()
		self := quorum.About{ID: l.ID(), Cluster: l.Cluster(), Mark: own}
		hash := quorum.MajorityHash(r.members(), l.askAll(r.members()), self)
		switch {
		// Not all masters have applied this entry, or not all answer. The question is asked again at the next look.
		case hash == "" || ctx.Err() != nil:
		case hash != own.Hash:
			l.failRun(differs(own, hash))
		default:
			if err := l.applyChange(ctx, r, registry.CheckHash{Index: own.Index, Hash: hash}); err != nil && !errors.Is(err, context.Canceled) {
				l.config.Logger.Debug().Err(err).Msg("the hash of the registry was not logged")
			}
		}
	})
}
