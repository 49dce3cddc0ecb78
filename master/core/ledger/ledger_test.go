package ledger_test

import (
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/ledger"
)

// TestNothingIsPromisedTwice: what is offered or used is not free, until it ends.
func TestNothingIsPromisedTwice(t *testing.T) {
	var l ledger.Ledger
	l.Resize(api.Scalars(4, 4096))
	if !l.Offer(api.Scalars(3, 1024)) || l.Offer(api.Scalars(2, 1024)) {
		t.Fatalf("after an offer %v is free", l.Free())
	}
	l.Unoffer("agent-1", api.Scalars(3, 1024))
	l.Use("agent-1", api.Scalars(3, 1024))
	if free := l.Free(); !free.Equal(api.Scalars(1, 3072)) {
		t.Errorf("after the launch %v is free", free)
	}
	l.Unuse(api.Scalars(3, 1024))
	if free := l.Free(); !free.Equal(api.Scalars(4, 4096)) {
		t.Errorf("after the end %v is free", free)
	}
}

// TestReportedStands: what an agent reports is booked however much it is, and nothing is free until enough has ended.
func TestReportedStands(t *testing.T) {
	var l ledger.Ledger
	l.Resize(api.Scalars(2, 1024))
	l.Take(api.Scalars(3, 512))
	if !l.Over || l.Offer(api.Scalars(0, 512)) {
		t.Error("an account that does not balance still offers")
	}
	l.Unuse(api.Scalars(2, 0))
	if l.Over || !l.Offer(api.Scalars(1, 512)) {
		t.Errorf("once it balances again %v is free, and can't be offered", l.Free())
	}
}

// TestOversoldStops: a launch of what is not there is our own mistake, and never goes unseen.
func TestOversoldStops(t *testing.T) {
	var l ledger.Ledger
	l.Resize(api.Scalars(2, 1024))
	defer func() {
		if recover() == nil {
			t.Error("an agent was oversold, and nobody stopped it")
		}
	}()
	l.Use("agent-1", api.Scalars(3, 512))
}
