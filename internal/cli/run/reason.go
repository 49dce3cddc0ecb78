package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/cli/client"
	"github.com/tenderhq/tender/internal/cli/show"
)

// reason is why the run waits: what stands between it and the agent that is nearest to holding a task.
func (r *runner) reason(ctx context.Context, agents []*apiv1.AgentView) string {
	if len(agents) == 0 {
		return "waiting: no agent has registered yet"
	}
	if !r.job.subscribed() {
		return "waiting for a session with the leading master"
	}
	const text = "waiting for resources: "
	answer, err := r.config.Operator.Explain(ctx, &apiv1.ExplainRequest{FrameworkId: string(r.job.ref("").Framework)})
	if err != nil {
		return text + "every agent that is large enough is busy"
	}
	if near := nearest(agents, answer.GetAgents(), r.config.Task.Resources, r.config.Role); near != nil {
		return text + r.between(ctx, near)
	}
	if len(answer.GetFramework()) > 0 {
		return text + show.Clean(answer.GetFramework()[0])
	}
	return text + "every agent that is large enough is busy"
}

// candidate is an agent that is large enough for a task.
type candidate struct {
	view  *apiv1.AgentView
	total api.Resources // that the role may use
	free  api.Resources // likewise
	why   string        // the leader's word on it
	rank  int           // lower is nearer
}

// The ranks of candidates.
const (
	rankFree = iota // it has room; a limit, a share or a filter is in the way
	rankFull        // others hold what the task needs
	rankAway        // it is marked or not connected
	rankNot         // a constraint excludes it
)

// nearest is the candidate with the least between it and the task; nil: none is known to be large enough.
func nearest(
	agents []*apiv1.AgentView, explained []*apiv1.ExplainedAgent, asked api.Resources, role api.Role,
) *candidate {
	why := map[string]string{}
	for _, agent := range explained {
		why[agent.GetAgentId()] = show.Clean(agent.GetWhy())
	}
	var best *candidate
	for _, agent := range agents {
		c := newCandidate(agent, why[agent.GetId()], asked, role)
		if c != nil && (best == nil || c.nearer(best, asked)) {
			best = c
		}
	}
	return best
}

// newCandidate returns nil for an agent that is too small, or of which the leader has said nothing.
func newCandidate(agent *apiv1.AgentView, why string, asked api.Resources, role api.Role) *candidate {
	total, err := resourcesOf(agent.GetTotal())
	free, err2 := resourcesOf(agent.GetFree())
	if err != nil || err2 != nil || why == "" {
		return nil
	}
	c := &candidate{view: agent, total: total.UsableBy(role), free: free.UsableBy(role), why: why}
	if _, _, fits := c.total.Carve(asked); !fits {
		return nil
	}
	_, _, room := c.free.Carve(asked)
	connected := agent.GetState() == api.AgentRunning.String() || agent.GetState() == api.AgentBusy.String()
	switch {
	case strings.Contains(why, "constraint"):
		c.rank = rankNot
	case len(agent.GetMarks()) > 0 || !connected:
		c.rank = rankAway
	case !room:
		c.rank = rankFull
	}
	return c
}

func (c *candidate) nearer(than *candidate, asked api.Resources) bool {
	if c.rank != than.rank {
		return c.rank < than.rank
	}
	return share(c.free, asked) > share(than.free, asked)
}

// between is what stands between the task and the agent, in words.
func (r *runner) between(ctx context.Context, near *candidate) string {
	id := near.view.GetId()
	switch near.rank {
	case rankFull:
		kind := scarcest(near.free, r.config.Task.Resources)
		return fmt.Sprintf("%s fits and is full: %s", id, r.holders(ctx, near, kind))
	case rankAway:
		if marks := near.view.GetMarks(); len(marks) > 0 {
			return fmt.Sprintf("%s fits and is %s", id, strings.Join(marks, " and "))
		}
		return fmt.Sprintf("%s fits and is %s: %s", id, near.view.GetState(), near.view.GetWhy())
	}
	if strings.Contains(near.why, id) {
		return near.why
	}
	return id + ": " + near.why
}

// scarcest is the kind of which the least is there, measured by what is asked.
func scarcest(free, asked api.Resources) string {
	kind, least := "", 2.0
	for _, item := range asked.Items() {
		if item.Scalar <= 0 {
			continue
		}
		if part := free.Scalar(item.Name).Float() / item.Scalar.Float(); part < least {
			kind, least = item.Name, part
		}
	}
	return kind
}

// holdersMax are named.
const holdersMax = 3

// holders says who has how much of a kind on an agent: "web holds 3 of 4 cpus".
func (r *runner) holders(ctx context.Context, near *candidate, kind string) string {
	total := near.total.Scalar(kind)
	if kind == "" {
		return near.why
	}
	tasks, _, err := client.All(ctx, r.config.Operator.ListTasks, holderTasksMax, func(token string, limit int32) *apiv1.ListTasksRequest {
		return &apiv1.ListTasksRequest{AgentId: near.view.GetId(), PageToken: token, Limit: limit}
	})
	held := map[string]api.Milli{}
	for _, task := range tasks {
		if has, err := resourcesOf(task.GetResources()); err == nil {
			held[cmp.Or(task.GetFrameworkName(), task.GetFrameworkId())] += has.Scalar(kind)
		}
	}
	if err != nil || len(held) == 0 {
		return fmt.Sprintf("%s of %s %s are free", near.free.Scalar(kind), total, kind)
	}
	names := sortedByHeld(held)
	var parts []string
	for _, name := range names[:min(len(names), holdersMax)] {
		parts = append(parts, fmt.Sprintf("%s holds %s", name, held[name]))
	}
	if more := len(names) - holdersMax; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more hold some", more))
	}
	return fmt.Sprintf("%s of %s %s", strings.Join(parts, ", "), total, kind)
}

// holderTasksMax tasks of an agent are asked for.
const holderTasksMax = 2000

// sortedByHeld puts who holds most first.
func sortedByHeld(held map[string]api.Milli) []string {
	var names []string
	for name, amount := range held { // order: sorted below
		if amount > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(held[b], held[a]), strings.Compare(a, b))
	})
	return names
}
