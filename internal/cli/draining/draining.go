// Package draining drains several agents, at most so many at a time, and waits until they are empty. It keeps nothing:
// the quorum keeps the marks, so running it again continues where it was stopped. It reads no flags and prints nothing
// itself.
package draining

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/cli/client"
	"github.com/tenderhq/tender/internal/pause"
)

const (
	// againAfter is how long after a failure masters are asked again.
	againAfter = time.Second
	// sayEvery bounds how often progress is said while it changes all the time.
	sayEvery = 5 * time.Second
	// namedMax is how many agents a sentence names.
	namedMax = 5
)

// Config says what is to be drained, and to whom it is told.
type Config struct {
	Operator apiv1.OperatorServiceClient
	Agents   []*apiv1.AgentView      // in the order in which their turn comes
	Request  *apiv1.MarkAgentRequest // of each
	AtATime  int                     // so many are draining and not yet empty; 0 = all
	// Drained is told of each agent when it is empty, Say of what happens on the way.
	Drained func(agent *apiv1.AgentView, done, all int)
	Say     func(sentence string)
}

// Stopped is the error of a roll whose context ended: what was begun goes on.
type Stopped struct {
	Draining, Untouched []string
	Cause               error
}

func (s *Stopped) Unwrap() error { return s.Cause }

func (s *Stopped) Error() string {
	var words []string
	if len(s.Draining) > 0 {
		words = append(words, "the drain goes on without this command: "+listed(s.Draining))
	}
	if len(s.Untouched) > 0 {
		words = append(words, "not begun: "+listed(s.Untouched))
	}
	return strings.Join(append(words, "the same command goes on from here, 'tender reactivate AGENT' takes a drain back"), "; ")
}

// roll is one run.
type roll struct {
	Config
	waiting []*apiv1.AgentView // draining, as last seen
	todo    []*apiv1.AgentView
	done    int
	lost    []string // why some will never be drained
	said    string
	saidAt  time.Time
	away    string // why no master answers
	watch   *watch // of those that are waiting; nil: none is open
}

// Run returns when all agents are drained. An agent that is given up or taken back meanwhile is an error, which
// comes when the others are drained.
func Run(ctx context.Context, config Config) error {
	r := &roll{Config: config, todo: slices.Clone(config.Agents)}
	defer r.forgetWatch()
	for {
		if err := r.begin(ctx); err != nil {
			return err
		}
		if len(r.todo)+len(r.waiting) == 0 {
			break
		}
		if err := r.hear(ctx); err != nil {
			return err
		}
	}
	if len(r.lost) > 0 {
		return fmt.Errorf("%d of %d agents are drained; %s", r.done, len(r.Agents), strings.Join(r.lost, "; "))
	}
	return nil
}

// room says whether the next agent may begin.
func (r *roll) room() bool {
	return len(r.todo) > 0 && (r.AtATime <= 0 || len(r.waiting) < r.AtATime)
}

// begin drains as many as may be.
func (r *roll) begin(ctx context.Context) error {
	for r.room() {
		agent := r.todo[0]
		// One that is drained already is none the worse for it, and may have been taken back since it was seen.
		answer, err := r.Operator.MarkAgent(ctx, &apiv1.MarkAgentRequest{
			AgentId: agent.GetId(), Action: apiv1.AgentAction_DRAIN, Grace: r.Request.GetGrace(), Force: r.Request.GetForce(),
		})
		switch {
		case ctx.Err() != nil:
			return r.stopped(ctx)
		case api.Is(err, api.Unavailable), api.Is(err, api.NotLeader), api.Is(err, api.Unknown):
			r.noAnswer(err)
			return nil // the same again is no harm
		case api.Is(err, api.Removed), api.Is(err, api.NotFound): // given up since it was seen, as the next look says
		case err != nil:
			return err
		default:
			r.away = ""
			r.Say(answer.GetMessage())
		}
		r.todo, r.waiting = r.todo[1:], append(r.waiting, agent)
		r.forgetWatch() // what it tells may be from before the mark
	}
	return nil
}

// noAnswer says once why nothing is known.
func (r *roll) noAnswer(err error) {
	if why := err.Error(); why != r.away {
		r.away = why
		r.Say(fmt.Sprintf("no master answers, and the drain goes on meanwhile: %v", err))
	}
}

// forgetWatch ends the watch, if there is one. The next one tells what is then.
func (r *roll) forgetWatch() {
	if r.watch != nil {
		r.watch.close()
		r.watch = nil
	}
}

// hear waits until the leader tells of a change, or it is time to say something or to ask again.
func (r *roll) hear(ctx context.Context) error {
	var news chan heard // none while nobody is awaited
	if len(r.waiting) > 0 {
		if r.watch == nil {
			r.watch = openWatch(ctx, r.Operator, ids(r.waiting))
		}
		news = r.watch.news
	}
	longest := sayEvery
	if r.away != "" {
		longest = againAfter
	}
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return r.stopped(ctx)
	case <-timer.C:
		r.progress()
		return nil
	case told := <-news:
		if told.err != nil {
			return r.watchEnded(ctx, told)
		}
		r.away = ""
		r.look(told)
		return nil
	}
}

// watchEnded waits a while before the next one, when there may be one. A leader that leads no more is no news.
func (r *roll) watchEnded(ctx context.Context, told heard) error {
	r.forgetWatch()
	switch {
	case ctx.Err() != nil:
		return r.stopped(ctx)
	case !mayComeBack(told.err):
		return client.Error(told.err)
	case !told.opened && !api.Is(client.Error(told.err), api.NotLeader):
		r.noAnswer(told.err)
	}
	if !pause.For(ctx, againAfter) {
		return r.stopped(ctx)
	}
	return nil
}

// look sees who is empty.
func (r *roll) look(told heard) {
	changed := r.watch.changed(told, r.waiting)
	waiting := r.waiting[:0]
	for _, before := range r.waiting {
		now, is := changed[before.GetId()]
		if !is {
			waiting = append(waiting, before)
			continue
		}
		switch why := over(before, now); {
		case why != "":
			r.lost = append(r.lost, why)
			r.Say(why)
		case marked(now, api.MarkDrained):
			r.done++
			r.Drained(now, r.done, len(r.Agents))
		default:
			waiting = append(waiting, now)
		}
	}
	r.waiting = waiting
	r.progress()
}

func marked(agent *apiv1.AgentView, mark api.Mark) bool {
	return slices.Contains(agent.GetMarks(), mark.Strings()[0])
}

// over says why an agent will not become drained any more, "" when it may.
func over(before, now *apiv1.AgentView) string {
	id := before.GetId()
	switch {
	case now == nil:
		return "agent " + id + " is no more: it was removed meanwhile"
	case marked(now, api.MarkGone):
		return "agent " + id + " is marked gone: its tasks have ended as GONE_BY_OPERATOR"
	case !marked(now, api.MarkDraining):
		return "agent " + id + " is offered again: somebody has taken the drain back"
	}
	return ""
}

// List returns all agents.
func List(ctx context.Context, operator apiv1.OperatorServiceClient) ([]*apiv1.AgentView, error) {
	all, _, err := client.All(ctx, operator.ListAgents, 0, func(token string, limit int32) *apiv1.ListRequest {
		return &apiv1.ListRequest{PageToken: token, Limit: limit}
	})
	return all, err
}

// progress says what is awaited, when that has changed and not all the time.
func (r *roll) progress() {
	if len(r.waiting) == 0 {
		return
	}
	var words []string
	for _, agent := range r.waiting[:min(len(r.waiting), namedMax)] {
		words = append(words, awaits(agent))
	}
	if more := len(r.waiting) - namedMax; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	text := "waiting: " + strings.Join(words, ", ")
	if text == r.said || time.Since(r.saidAt) < sayEvery {
		return
	}
	r.said, r.saidAt = text, time.Now()
	r.Say(text)
}

// awaits says what stands between an agent and its mark.
func awaits(agent *apiv1.AgentView) string {
	id, tasks := agent.GetId(), agent.GetTasks()
	away := agent.GetState() == api.AgentDisconnected.String() || agent.GetState() == api.AgentTombstone.String()
	switch {
	case away:
		return fmt.Sprintf("%s is %s and obeys when it is back (or give it up: tender gone %s)", id, agent.GetState(), id)
	case tasks == 0:
		return id + " is empty, and a framework has not acknowledged the ends yet (--force waits for none that is away)"
	case tasks == 1:
		return id + " has 1 task"
	}
	return fmt.Sprintf("%s has %d tasks", id, tasks)
}

func (r *roll) stopped(ctx context.Context) error {
	return &Stopped{Draining: ids(r.waiting), Untouched: ids(r.todo), Cause: context.Cause(ctx)}
}

func ids(agents []*apiv1.AgentView) []string {
	var names []string
	for _, agent := range agents {
		names = append(names, agent.GetId())
	}
	return names
}

// listed names the first of them.
func listed(names []string) string {
	if more := len(names) - namedMax; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedMax], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Choose finds the agents that people mean: each by its whole ID or hostname, or all that have every one of the
// attributes (KEY=VALUE; zone and region are attributes too). All or none are found, each once.
func Choose(all []*apiv1.AgentView, said, attributes []string) ([]*apiv1.AgentView, error) {
	if len(attributes) > 0 {
		return having(all, attributes)
	}
	var chosen []*apiv1.AgentView
	for _, word := range said {
		agent, err := meant(all, word)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(chosen, agent) {
			chosen = append(chosen, agent)
		}
	}
	return chosen, nil
}

func meant(all []*apiv1.AgentView, word string) (*apiv1.AgentView, error) {
	var found []*apiv1.AgentView
	for _, agent := range all {
		switch word {
		case agent.GetId():
			return agent, nil
		case agent.GetHostname():
			found = append(found, agent)
		}
	}
	switch len(found) {
	case 0:
		return nil, api.E("agent.drain", api.NotFound, word, fmt.Errorf("no agent is called %q", word))
	case 1:
		return found[0], nil
	}
	return nil, api.E("agent.drain", api.Invalid, word,
		fmt.Errorf("%q means %d agents: %s; name one by its ID", word, len(found), listed(ids(found))))
}

func having(all []*apiv1.AgentView, attributes []string) ([]*apiv1.AgentView, error) {
	var chosen []*apiv1.AgentView
	for _, agent := range all {
		lacks := func(pair string) bool { return !has(agent, pair) }
		if !marked(agent, api.MarkGone) && !slices.ContainsFunc(attributes, lacks) {
			chosen = append(chosen, agent)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no agent has %s; 'tender get agents -o wide' shows what they have", strings.Join(attributes, " and "))
	}
	return chosen, nil
}

func has(agent *apiv1.AgentView, pair string) bool {
	key, value, _ := strings.Cut(pair, "=")
	return api.Agent{Attributes: agent.GetAttributes(), Zone: agent.GetZone(), Region: agent.GetRegion()}.Has(key, value)
}
