package raftlog

import (
	"context"
	"errors"

	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// What the leader asks the other masters each time it looks at its quorum. It does so beside everything else.

// raiseFormat has a newer format used once every member of the quorum has said that it reads it (R24). From then on the
// registry says so, and a master that does not know the format can't join: it refuses to read the log.
func (l *Log) raiseFormat(ctx context.Context, r *life) {
	if !r.leads() || l.currentLeadership() == nil || max(l.machine.format(), 1) >= l.config.Format {
		return
	}
	select {
	case l.raising <- struct{}{}:
	default:
		return // it is being asked
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

// agreeOnHash asks the others for the hashes of their registries, one question at a time and beside everything else.
func (l *Log) agreeOnHash(ctx context.Context, r *life) {
	own, agreed := l.machine.mark()
	if !r.leads() || l.currentLeadership() == nil || own.Index <= agreed {
		return
	}
	select {
	case l.comparing <- struct{}{}:
	default:
		return // somebody asks
	}
	l.asking.Go(func() { // ends with its questions, each of which has a timeout, or with Raft
		defer func() { <-l.comparing }()
		self := quorum.About{ID: l.ID(), Cluster: l.Cluster(), Mark: own}
		hash := quorum.MajorityHash(r.members(), l.askAll(r.members()), self)
		switch {
		case hash == "" || ctx.Err() != nil: // not all have come so far, or not all answer: it asks again at the next look
		case hash != own.Hash:
			l.failRun(differs(own, hash))
		default:
			if err := l.applyChange(ctx, r, registry.CheckHash{Index: own.Index, Hash: hash}); err != nil && !errors.Is(err, context.Canceled) {
				l.config.Logger.Debug().Err(err).Msg("the hash of the registry was not logged")
			}
		}
	})
}
