package framework

import (
	"context"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// Explain asks the leader why this framework is offered what it is offered, or nothing. It returns sentences for
// people, the most important first; none: there is nothing to explain, because nothing is wanted that is not there.
//
// It is what a program shows that has waited for some seconds: "no agent has more than 4 cpus". Explain waits for a
// session, and its error's kind is [api.Unavailable] if ctx ends before. It may be called from any goroutine; in a
// callback it holds up all other callbacks.
func (c *Client) Explain(ctx context.Context) ([]string, error) {
	var answer *apiv1.ExplainResponse
	err := c.atLeader(ctx, "framework.explain", string(c.FrameworkID()), func(ctx context.Context, p place) (err error) {
		answer, err = p.operator.Explain(ctx, &apiv1.ExplainRequest{FrameworkId: p.session.GetFrameworkId()})
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer.GetFramework(), nil
}
