package books

import (
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestOffersOfOneValueAreOne: which of two equal parts goes does not depend on where the given resources lie in
// memory, so that a policy in another process answers as one in this does.
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
