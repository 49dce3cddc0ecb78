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
