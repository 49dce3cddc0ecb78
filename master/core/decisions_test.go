package core_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/master/core"
)

// TestDecisionsAreBounded: of a framework that has its offers expire for a while the
// latest twenty ends are known, in their order.
func TestDecisionsAreBounded(t *testing.T) {
	w := newWorld(policyNamed("fairshare"), core.Config{})
	w.quiet = true
	w.lead()
	agent := transcript.Parse("agent a1 cpus=4 mem=4096")
	w.verbOfAgents("agent", agent)
	f1 := transcript.Parse("framework f1")
	w.verbOfFrameworks("framework", f1)
	for range 12 {
		w.pass(90 * time.Second)
		view, err := w.core.View().Explain(w.said("f1"), "", w.now)
		if err != nil {
			t.Fatal(err)
		}
		if len(view.Decisions) > 20 {
			t.Fatalf("%d are kept", len(view.Decisions))
		}
		for i, one := range view.Decisions[1:] {
			if before := view.Decisions[i]; !one.At.After(before.At) {
				t.Fatalf("%s, which ended at %v, comes after %s of %v", one.Offer, one.At, before.Offer, before.At)
			}
		}
		last := view.Decisions[len(view.Decisions)-1]
		if age := w.now.Sub(last.At); age > 35*time.Second {
			t.Fatalf("the newest is %s of %v ago", last.Offer, age)
		}
	}
}
