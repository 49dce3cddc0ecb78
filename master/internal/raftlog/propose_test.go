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
			if !taken || !api.Is(told, kind) {
				t.Errorf("taken: %v, told: %v", taken, told)
			}
		}
		if _, err := commit(lead, admit("a", 1)); err != nil || lead.ended() {
			t.Errorf("after that: %v, over: %v", err, lead.ended())
		}
		q.stopAll()
	})
}
