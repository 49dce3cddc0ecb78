package raftlog

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry"
)

// TestWhatCantBeWrittenEndsNothing: R34. A command that does not fit in an entry, or that holds what no entry can hold,
// is refused to its proposer before Propose returns. The leadership continues.
func TestWhatCantBeWrittenEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 1)
		_, lead := q.leader("")
		for kind, change := range map[api.Kind]registry.Change{
			api.Limit:   registry.MarkAgent{ID: "agent-1", Why: strings.Repeat("w", registrycodec.CommandBytesMax)},
			api.Invalid: registry.MarkAgent{ID: "agent-1", Why: "\xff"},
		} {
			var told error
			taken := lead.Propose(Proposal{Command: registry.Command{Client: "c", Counter: 1, Change: change}, Done: func(_ registry.Result, err error) { told = err }})
			if taken != 1 || !api.Is(told, kind) {
				t.Errorf("taken: %v, told: %v", taken, told)
			}
		}
		if _, err := commit(lead, admit("a", 1)); err != nil || lead.ended() {
			t.Errorf("after that: %v, over: %v", err, lead.ended())
		}
		q.stopAll()
	})
}

// TestProposalsGather: while two entries are under way, what is proposed piece by piece waits for one entry together.
func TestProposalsGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, lead := q.leader("")
		addr := q.nodes[id].config.Advertise
		q.mesh.isolate(addr, true) // nothing is committed
		const proposals = 20
		for i := range proposals {
			lead.Propose(Proposal{Command: admit("a", uint64(i+1))})
			synctest.Wait() // until it is in an entry, if it can be
		}
		if gathered := lead.Waiting(); gathered != proposals-2 || lead.ended() {
			t.Errorf("of %d proposals %d wait for an entry; over: %v", proposals, gathered, lead.ended())
		}
		q.mesh.isolate(addr, false)
	})
}

// TestProposalsOfACallAreOneEntry: what is proposed together is not cut into entries. What can't be written is refused, and
// the others are written.
func TestProposalsOfACallAreOneEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		_, lead := q.leader("")
		proposals, refused := make([]Proposal, 100), 0
		for i := range proposals {
			proposals[i].Command = admit("a", uint64(i+1))
			if i == 50 {
				proposals[i] = Proposal{Command: registry.Command{Change: registry.MarkAgent{Why: "\xff"}}, Done: func(registry.Result, error) { refused++ }}
			}
		}
		if taken := lead.Propose(proposals...); taken != len(proposals) || refused != 1 {
			t.Errorf("%d are taken, %d refused", taken, refused)
		}
		if commit := <-lead.Commits(); len(commit.Commands) != len(proposals)-1 {
			t.Errorf("the first entry has %d commands", len(commit.Commands))
		}
	})
}
