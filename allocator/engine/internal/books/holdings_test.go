package books

import (
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestOffersOfOneValueAreOne: which of two equal parts goes does not depend on where the given resources are in memory.
// So a policy in another process gives the same answers as one in this process.
func TestOffersOfOneValueAreOne(t *testing.T) {
	m := &Member{Number: 7}
	part := func() api.Resources { return api.Scalars(1, 128) }
	for name, given := range map[string]func(older, younger api.Resources) api.Resources{
		"the younger itself": func(_, younger api.Resources) api.Resources { return younger },
		"the older itself":   func(older, _ api.Resources) api.Resources { return older },
		"a copy":             func(api.Resources, api.Resources) api.Resources { return part() },
	} {
		a := &Agent{Details: new(Details)}
		older, younger := part(), part()
		a.Hold(m, older, true, 1)
		a.BearFruit(m)
		a.Hold(m, younger, true, 2)
		gone, fruitful := a.LetGo(m, given(older, younger), true)
		if !gone.Equal(part()) || !fruitful || len(a.Offers()) != 1 || a.Offers()[0].Since != 2 {
			t.Errorf("%s: %v went, fruitful %v, and %+v is left; the older one was to go", name, gone, fruitful, a.Offers())
		}
	}
}

// TestAnOfferOfSeveralPartsGoesAlone: an offer that was made in several parts, for example because a part is
// guaranteed, goes with all of them. Whatever else the framework holds of the agent stays as it was: nothing was
// launched from it.
func TestAnOfferOfSeveralPartsGoesAlone(t *testing.T) {
	m, other := &Member{Number: 7}, &Member{Number: 8}
	mem := func(amount float64) api.Resources { return api.Scalars(0, amount) }
	for name, held := range map[string][]api.Resources{
		"before one that is different":  {mem(700), mem(2116), api.Scalars(1, 128)},
		"after one that is different":   {api.Scalars(1, 128), mem(700), mem(2116)},
		"after one that is less":        {mem(64), mem(700), mem(2116)},
		"before one that holds as much": {mem(700), mem(2116), api.Scalars(2, 4096)},
	} {
		a := &Agent{Details: new(Details)}
		for _, part := range held {
			a.Hold(other, mem(1), true, 1)
			a.Hold(m, part, true, 1)
		}
		if gone, fruitful := a.LetGo(m, mem(2816), true); !gone.Equal(mem(2816)) || fruitful {
			t.Errorf("%s: %v went, fruitful %v", name, gone, fruitful)
		}
		rest := a.SumOf(m, true)
		if gone, fruitful := a.LetGo(m, rest, true); !gone.Equal(rest) || fruitful || a.HasOffer(m) {
			t.Errorf("%s: of the other offer %v went, fruitful %v", name, gone, fruitful)
		}
	}
}

// TestTasksOfOneSizeAreOneEntry: what tasks hold is counted by size, so that the search for one does not grow with how
// many run beside it; and every way to give something back finds each of them once.
func TestTasksOfOneSizeAreOneEntry(t *testing.T) {
	m, other := &Member{Number: 7}, &Member{Number: 8}
	a := &Agent{Details: new(Details)}
	for range 2000 {
		a.Hold(other, api.Scalars(2, 64), false, 1)
	}
	for range 5 {
		a.Hold(m, api.Scalars(1, 128), false, 1)
	}
	if len(a.claimed.list) != 2 {
		t.Fatalf("%d entries for two sizes", len(a.claimed.list))
	}
	for _, c := range []struct {
		back, left api.Resources
		holdings   int
	}{
		{api.Scalars(1, 128), api.Scalars(4, 512), 4},   // one of them
		{api.Scalars(0.5, 0), api.Scalars(3.5, 512), 4}, // a part of one
		{api.Scalars(2.5, 384), api.Scalars(1, 128), 2}, // parts of several: something is left of two
	} {
		if gone, _ := a.LetGo(m, c.back, false); !gone.Equal(c.back) || !a.SumOf(m, false).Equal(c.left) || m.Holdings < 1 || m.Holdings > c.holdings {
			t.Errorf("%v: %v went, %v and %d are left", c.back, gone, a.SumOf(m, false), m.Holdings)
		}
	}
	held := 0
	for h := range a.Held {
		if h.Member == other.Number {
			held++
		}
	}
	if all := a.LetAllGo(m); !all.Equal(api.Scalars(1, 128)) || m.Holdings != 0 || held != 2000 || other.Holdings != 2000 {
		t.Errorf("%v was left, %d holdings; the other holds %d, and %d are counted", all, m.Holdings, held, other.Holdings)
	}
}
