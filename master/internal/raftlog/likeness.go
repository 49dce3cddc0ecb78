package raftlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry"
)

// Masters that have applied the same log hold the same registry. That this is so is checked:
// each takes the hash of its registry at the same indices, the leader asks the others for
// theirs, and what a majority of the quorum has goes into the log. A master that has another
// one stops: its disk, its memory or its program is broken, and as a leader it would hand its
// registry on to those that fall behind.

// hashEvery is after how many entries of the log the hash is taken.
const hashEvery = 8192

// mark is the hash of the registry behind one entry.
type mark struct {
	Index uint64 `json:"index,omitempty"`
	Hash  string `json:"hash,omitempty"`
}

// marks are what a machine knows of hashes. Guarded by the machine's mu.
type marks struct {
	every  uint64
	own    mark // the latest that was taken
	logged mark // the latest that the quorum has agreed on
}

// takeHash takes the hash behind an entry at which all masters take it: the first one with
// commands at or behind each multiple. It is computed beside the applying.
func (m *machine) takeHash(before, index uint64) {
	if !m.state.Knows(registry.FormatBounded) || before/m.marks.every == index/m.marks.every {
		return
	}
	picture := m.state.Clone()
	m.hashing.Go(func() {
		taken := mark{index, registrycodec.Hash(picture)}
		m.mu.Lock()
		defer m.mu.Unlock()
		if taken.Index > m.marks.own.Index {
			m.marks.own = taken
		}
		m.compareHash()
	})
}

// agreed takes what the quorum has agreed on.
func (m *machine) agreed(change registry.CheckHash) {
	m.marks.logged = mark{change.Index, change.Hash}
	m.compareHash()
}

func (m *machine) compareHash() {
	own, logged := m.marks.own, m.marks.logged
	if own.Index != logged.Index || own.Hash == logged.Hash || own.Hash == "" || m.broken {
		return
	}
	m.broken = true
	m.fail(differs(own, logged.Hash))
}

func differs(own mark, majority string) error {
	return fmt.Errorf("this master's registry is not what the majority's is: behind entry %d its hash is %.16s and theirs %.16s; its disk or memory is broken. "+
		"Check the machine, `tender raft remove` this master at the others, empty its folder and `tender raft add` it again", own.Index, own.Hash, majority)
}

// mark returns the latest hash that was taken, and the index of the latest agreed one.
func (m *machine) mark() (own mark, agreed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks.own, m.marks.logged.Index
}

// agreeOnHash asks beside everything else, one question at a time.
func (l *Log) agreeOnHash(ctx context.Context, r *life) {
	own, agreed := l.machine.mark()
	if r.State() != raft.Leader || l.current() == nil || own.Index <= agreed {
		return
	}
	select {
	case l.comparing <- struct{}{}:
	default:
		return // somebody asks
	}
	l.asking.Go(func() { // ends with its questions, each of which has a timeout, or with Raft
		defer func() { <-l.comparing }()
		hash := l.majorityHash(r, own)
		switch {
		case hash == "" || ctx.Err() != nil: // not all are so far, or not all answer; again at the next look
		case hash != own.Hash:
			l.fail(differs(own, hash))
		default:
			if err := l.apply(ctx, r, registry.CheckHash{Index: own.Index, Hash: hash}); err != nil && !errors.Is(err, context.Canceled) {
				l.config.Logger.Debug().Err(err).Msg("the hash of the registry was not logged")
			}
		}
	})
}

// majorityHash is the hash that more than half of all voters have at the index of ours; "" if
// there is none.
func (l *Log) majorityHash(r *life, own mark) string {
	all := members(r.GetConfiguration().Configuration().Servers)
	answers := l.askAll(all)
	voters, having := 0, make(map[string]int)
	for _, peer := range all {
		if !peer.Voter {
			continue
		}
		voters++
		switch answer, answered := answers[peer.ID]; {
		case peer.ID == l.ID():
			having[own.Hash]++
		case answered && answer.Cluster == l.Cluster() && answer.Mark.Index == own.Index:
			having[answer.Mark.Hash]++
		}
	}
	for hash, count := range having { // order: irrelevant because only one has more than half
		if 2*count > voters {
			return hash
		}
	}
	return ""
}
