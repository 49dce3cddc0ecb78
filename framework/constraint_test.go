package framework_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// choosy is a scheduler that only states demands.
type choosy struct{ subscribed error }

func (*choosy) Offers(context.Context, []api.Offer) []api.Answer { return nil }
func (*choosy) Update(context.Context, api.Status) error         { return nil }

func (c *choosy) Subscribed(_ context.Context, client *framework.Client) error {
	c.subscribed = client.Demand(demandWhere(`agent.zone ==`))
	return nil
}

func demandWhere(constraint string) api.Demand {
	return api.Demand{Shapes: []api.Shape{{Resources: api.Scalars(1, 128), Count: 1, Constraint: constraint}}}
}

// TestWrongConstraintIsAnErrorAtOnce: a call that states a demand with a wrong constraint returns an error, in a
// callback as well. The demand that was stated before stays.
func TestWrongConstraintIsAnErrorAtOnce(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		scheduler := &choosy{}
		f := c.Start(framework.Config{Name: "choosy"}, scheduler)
		f.AwaitOffers(1)
		if err := scheduler.subscribed; !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "shape 1") {
			t.Errorf("in Subscribed: %v", err)
		}
		good := demandWhere(`attributes["rack"] == "r1"`)
		if err := f.Client().Demand(good); err != nil {
			t.Errorf("a good one: %v", err)
		}
		for _, wrong := range []string{`nobody == 1`, `1 + 1`, strings.Repeat("(", 5000)} {
			if err := f.Client().Demand(demandWhere(wrong)); !api.Is(err, api.Invalid) {
				t.Errorf("%.20s: %v", wrong, err)
			}
		}
		if shapes, stated := f.Client().Wanted(""); !stated || len(shapes) != 1 || shapes[0].Constraint != good.Shapes[0].Constraint {
			t.Errorf("%v is wanted, stated: %v", shapes, stated)
		}
	})
}
