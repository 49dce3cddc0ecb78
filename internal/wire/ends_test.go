package wire_test

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
)

// TestEndsToldAgain: an end is known in later terms, once it was told, in the same words. A task that was DROPPED and is
// launched again ends again.
func TestEndsToldAgain(t *testing.T) {
	term := func(number uint64) api.Term { return api.Term{Number: number} }
	var ends wire.Ends
	ends.Note("f1/t1", "running", term(1))
	ends.Note("f1/t1", "finished", term(1))
	ends.Note("f1/t2", "dropped", term(1))
	ends.Note("f1/t3", "dropped", term(1))
	ends.Note("f1/t3", "launched", term(1))
	ends.Note("f1/t1", "finished", term(2)) // again: it was told in term 1 all the same
	for _, one := range []struct {
		task, what string
		term       uint64
		known      bool
	}{
		{"f1/t1", "finished", 1, false},
		{"f1/t1", "finished", 2, true},
		{"f1/t1", "finished", 3, true},
		{"f1/t1", "running", 2, false},
		{"f2/t1", "finished", 2, false},
		{"f1/t2", "dropped", 2, true},
		{"f1/t2", "finished", 2, false},
		{"f1/t3", "dropped", 2, false},
	} {
		if known := ends.Knows(one.task, one.what, term(one.term)); known != one.known {
			t.Errorf("that %s is %s is known in term %d: %v", one.task, one.what, one.term, known)
		}
	}
	const latest = 16_384
	for i := range 3 * latest {
		ends.Note(fmt.Sprint("f1/of-many-", i), "failed", term(2))
	}
	for i, known := range map[int]bool{0: false, 2 * latest: true, 3*latest - 1: true} {
		if got := ends.Knows(fmt.Sprint("f1/of-many-", i), "failed", term(3)); got != known {
			t.Errorf("end %d of %d is known: %v", i, 3*latest, got)
		}
	}
}
