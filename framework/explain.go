package framework

import (
	"context"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// Explain asks the leader why this framework is offered what it is offered, or nothing. It returns sentences for
// people, the most important first; none: there is nothing to explain, because nothing is wanted that is not there.
//
// It is what a program shows that has waited for some seconds: "no agent has more than 4 cpus". Explain waits for a
// session, and its error's kind is [api.Unavailable] if ctx ends before. It may be called from any goroutine; in a
// callback it holds up all other callbacks.
func (c *Client) Explain(ctx context.Context) ([]string, error) {
	answer, err := c.askWhy(ctx, nil)
	return answer.GetFramework(), err
}

// ExplainShape asks the leader what keeps this framework from being offered room for the tasks of one shape, whatever
// else it wants, in the role ("": the first of its roles). With together all of them have to begin at one time. inVain
// says that waiting is in vain as the cluster is: no agent could hold such a task, or all agents not so many together,
// even if they were empty. The shape need not be in the framework's demand. Otherwise it is like Explain.
func (c *Client) ExplainShape(ctx context.Context, role api.Role, shape api.Shape, together bool) (reasons []string, inVain bool, err error) {
	answer, err := c.askWhy(ctx, &apiv1.ExplainShape{Shape: wire.ShapeToProto(shape), Role: string(role), Together: together})
	return answer.GetFramework(), answer.GetInVain(), err
}

func (c *Client) askWhy(ctx context.Context, shape *apiv1.ExplainShape) (answer *apiv1.ExplainResponse, err error) {
	err = c.present.atLeader(ctx, "framework.explain", string(c.FrameworkID()), func(ctx context.Context, p place) (err error) {
		answer, err = p.operator.Explain(ctx, &apiv1.ExplainRequest{FrameworkId: p.session.GetFrameworkId(), Shape: shape})
		return err
	})
	return answer, err
}
