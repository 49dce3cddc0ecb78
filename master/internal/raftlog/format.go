package raftlog

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/registry"
)

// A newer format is used once every member of the quorum has said that it reads it
// (R24). The leader asks them, when it begins and then with every look at its
// quorum, until the registry has the newest format that it knows itself. From then on
// the registry says so, and a master that does not know the format can't join: it
// refuses to read the log.

// raiseFormat asks beside everything else; one question at a time.
func (l *Log) raiseFormat(ctx context.Context, r *life) {
	if r.State() != raft.Leader || l.current() == nil || max(l.machine.format(), 1) >= l.config.Format {
		return
	}
	select {
	case l.raising <- struct{}{}:
	default:
		return // it is being asked
	}
	l.asking.Go(func() { // ends with its questions, each of which has a timeout, or with Raft
		defer func() { <-l.raising }()
		if format := l.agreedFormat(r); ctx.Err() == nil && max(l.machine.format(), 1) < format {
			if err := l.apply(ctx, r, registry.RaiseFormat{Format: format}); err == nil {
				l.config.Logger.Info().Uint64("format", format).Msg("all masters know the registry's new format")
			}
		}
	})
}

// agreedFormat is the newest that all members read; 1 while one of them is silent.
func (l *Log) agreedFormat(r *life) uint64 {
	format := l.config.Format
	all := members(r.GetConfiguration().Configuration().Servers)
	answers := l.askAll(all)
	for _, peer := range all {
		answer, answered := answers[peer.ID]
		switch {
		case peer.ID == l.ID():
		case !answered || answer.Cluster != l.Cluster():
			return 1
		default:
			format = min(format, max(answer.Format, 1))
		}
	}
	return format
}

// checkNewVersion refuses a master that could not read what the quorum writes, or that
// is too old or too new for it.
func (l *Log) checkNewVersion(peer Peer, answer about) error {
	if known, needed := max(answer.Format, 1), max(l.machine.format(), 1); known < needed {
		return api.E("", api.Unsupported, peer.ID,
			fmt.Errorf("it reads the registry's format %d, and the quorum writes format %d; start a newer version of it", known, needed))
	}
	if err := protocol.Neighbours(l.config.Version, answer.Version); err != nil {
		return api.E("", api.Unsupported, peer.ID, err)
	}
	return nil
}
