package raftlog

import (
	"fmt"

	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// Masters that have applied the same log must hold the same registry, and this is checked. Each master computes the
// hash of its registry at the same indexes. The leader asks the others for theirs, and the hash that a majority of the
// quorum has is written to the log. A master with a different hash stops: its disk, memory or program is broken, and as
// a leader it would pass its registry on to those that have fallen behind.

// hashEvery is after how many entries of the log a hash is taken.
const hashEvery = 8192

// marks holds the hashes that a machine knows. Guarded by the machine's mu.
type marks struct {
	every  uint64
	own    quorum.Mark // the latest that this master has taken
	logged quorum.Mark // the latest on which the quorum has agreed
}

// takeHash takes the hash after an entry at which all masters take it: the first entry with commands at or after each
// multiple of marks.every. A goroutine computes it, so that applying does not wait.
func (m *machine) takeHash(before, index uint64) {
	if before/m.marks.every == index/m.marks.every {
		return
	}
	picture := m.state.Clone()
	m.hashing.Go(func() {
		taken := quorum.Mark{Index: index, Hash: registrycodec.Hash(picture)}
		m.mu.Lock()
		defer m.mu.Unlock()
		if taken.Index > m.marks.own.Index {
			m.marks.own = taken
		}
		m.compareHash()
	})
}

// agreed records the hash on which the quorum has agreed.
func (m *machine) agreed(change registry.CheckHash) {
	m.marks.logged = quorum.Mark{Index: change.Index, Hash: change.Hash}
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

func differs(own quorum.Mark, majority string) error {
	return fmt.Errorf("this master's registry is not what the majority's is: behind entry %d its hash is %.16s and theirs %.16s; its disk or memory is broken. "+
		"Check the machine, `tender raft remove` this master at the others, "+beginAnew, own.Index, own.Hash, majority)
}

// mark returns the latest hash that this master has taken, and the index of the latest agreed one.
func (m *machine) mark() (own quorum.Mark, agreed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks.own, m.marks.logged.Index
}
