package master

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/hang"
)

// UntilLeads waits until a master leads, and returns the term.
func UntilLeads(t testing.TB, m *Master) api.Term {
	t.Helper()
	for {
		changed := m.LeadershipChanged() // before looking, so that no change is missed
		if term, leads := m.Leading(); leads {
			return term
		}
		hang.Receive(t, fmt.Sprintf("a leadership of %s", m.ID()), func() string { return fmt.Sprintf("%+v", m.raft.Outline()) }, changed)
	}
}
