package run

import (
	"context"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// reason returns why the run waits: the first sentence of the leader's explanation, which says what keeps the nearest
// agent from holding a task.
func (r *runner) reason(ctx context.Context, agents []*apiv1.AgentView) string {
	if len(agents) == 0 {
		return "waiting: no agent has registered yet"
	}
	if !r.job.subscribed() {
		return "waiting for a session with the leading master"
	}
	answer, err := r.config.Operator.Explain(ctx, &apiv1.ExplainRequest{FrameworkId: string(r.job.ref("").Framework)})
	if err != nil || len(answer.GetFramework()) == 0 {
		return "waiting for resources"
	}
	return "waiting for resources: " + show.Clean(answer.GetFramework()[0])
}
