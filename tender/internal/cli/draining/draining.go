// Package draining drains several agents, at most so many at a time, and waits until they are empty. It keeps nothing:
// the quorum keeps the marks, so running it again continues where it was stopped. It reads no flags and prints nothing
// itself.
package draining

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/words"
)

const (
	// againAfter is how long to wait after a failure before masters are asked again.
	againAfter = time.Second
	// sayEvery limits how often progress is reported while it changes all the time.
	sayEvery = 5 * time.Second
	// namedMax is how many agents a sentence names.
	namedMax = 5
)

// Follow tells what changes, as client.Watch does.
type Follow func(context.Context, *apiv1.WatchRequest) iter.Seq2[*apiv1.WatchResponse, error]

// Config says which agents to drain, and whom to tell.
type Config struct {
	Operator apiv1.OperatorServiceClient
	Watch    Follow
	Agents   []*apiv1.AgentView      // in the order in which they are drained
	Request  *apiv1.MarkAgentRequest // the request for each of them
	AtATime  int                     // how many may be draining and not yet empty; 0 = all
	// Drained is called for each agent that is empty, and Say with what happens on the way.
	Drained func(agent *apiv1.AgentView, done, all int)
	Say     func(sentence string)
}

// Stopped is the error of a drain whose context ended. Agents that are draining go on.
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

// roll is one run of a rolling drain.
type roll struct {
	Config
	waiting []*apiv1.AgentView // agents that are draining, as last seen
	todo    []*apiv1.AgentView
	done    int
	lost    []string // why some agents will never be drained
	said    string
	saidAt  time.Time
	away    string // why no master answers
	watch   *watch
}

// Run returns when all agents are drained. If an agent is given up or taken back meanwhile, that is an error, which is
// returned when the others are drained.
func Run(ctx context.Context, config Config) error {
	r := &roll{Config: config, todo: slices.Clone(config.Agents)}
	if err := r.begin(ctx); err != nil {
		return err
	}
	// What the watch tells first of these agents is newer than their marks. One that does not drain was taken back.
	r.watch = openWatch(ctx, config.Watch, r.waiting)
	defer r.watch.close()
	for len(r.todo)+len(r.waiting) > 0 {
		if err := r.hear(ctx); err != nil {
			return err
		}
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	if len(r.lost) > 0 {
		return fmt.Errorf("%d of %d agents are drained; %s", r.done, len(r.Agents), strings.Join(r.lost, "; "))
	}
	return nil
}

// room says whether the next agent may begin to drain.
func (r *roll) room() bool {
	return len(r.todo) > 0 && (r.AtATime <= 0 || len(r.waiting) < r.AtATime)
}

// begin drains as many agents as may be draining.
func (r *roll) begin(ctx context.Context) error {
	for r.room() {
		agent := r.todo[0]
		// Draining an agent again does no harm, and it may have been taken back since it was seen.
		answer, err := r.Operator.MarkAgent(ctx, &apiv1.MarkAgentRequest{
			AgentId: agent.GetId(), Action: apiv1.AgentAction_DRAIN, Grace: r.Request.GetGrace(), Force: r.Request.GetForce(),
		})
		switch {
		case ctx.Err() != nil:
			return r.stopped(ctx)
		case api.Transient(err):
			r.noAnswer(err)
			return nil // repeating it later does no harm
		case api.Is(err, api.Removed), api.Is(err, api.NotFound): // it was given up since it was seen, as the next look tells
		case err != nil:
			return err
		default:
			r.away = ""
			r.Say(answer.GetMessage())
		}
		r.todo, r.waiting = r.todo[1:], append(r.waiting, agent)
	}
	return nil
}

// noAnswer reports once why nothing is known.
func (r *roll) noAnswer(err error) {
	if why := err.Error(); why != r.away {
		r.away = why
		r.Say(fmt.Sprintf("no master answers, and the drain goes on meanwhile: %v", err))
	}
}

// hear waits until a change is told, or it is time to report something or to ask again.
func (r *roll) hear(ctx context.Context) error {
	longest := sayEvery
	if r.away != "" {
		longest = againAfter
	}
	select {
	case <-ctx.Done():
		return r.stopped(ctx)
	case <-time.After(longest):
		r.progress()
		return nil
	case told := <-r.watch.news:
		switch {
		case ctx.Err() != nil:
			return r.stopped(ctx)
		case told.err != nil:
			return told.err
		}
		r.away = ""
		r.hearNews(told.WatchResponse)
		return nil
	}
}

// hearNews checks which agents are empty.
func (r *roll) hearNews(news *apiv1.WatchResponse) {
	r.watch.later = r.watch.later || news.GetMissed() != ""
	r.watch.copy.Take(news)
	for _, change := range news.GetItems() {
		id := agentOf(change)
		if i := slices.IndexFunc(r.waiting, func(agent *apiv1.AgentView) bool { return agent.GetId() == id }); i >= 0 {
			r.judge(i, change)
		}
	}
	for i := len(r.waiting) - 1; i >= 0 && news.GetComplete(); i-- { // it was removed before the watch began, or while it heard nothing
		if id := r.waiting[i].GetId(); r.watch.copy.Get("agent", id) == nil {
			r.judge(i, &apiv1.Change{Removed: "agent/" + id})
		}
	}
	r.progress()
}

// judge looks at an agent that is waited for after a change of it.
func (r *roll) judge(i int, change *apiv1.Change) {
	before := r.waiting[i]
	now, says := r.watch.look(before, change)
	if !says {
		return
	}
	why := over(before, now)
	switch {
	case why != "":
		r.lost = append(r.lost, why)
		r.Say(why)
	case marked(now, api.MarkDrained):
		r.done++
		r.Drained(now, r.done, len(r.Agents))
	default:
		r.waiting[i] = now
		return
	}
	r.waiting = slices.Delete(r.waiting, i, i+1)
}

func marked(agent *apiv1.AgentView, mark api.Mark) bool {
	return slices.Contains(agent.GetMarks(), mark.Strings()[0])
}

// over returns why an agent will not become drained any more; "" if it still may.
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

// progress reports what is waited for, if that has changed, but not too often.
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

// awaits says what keeps an agent from being drained.
func awaits(agent *apiv1.AgentView) string {
	id, tasks := agent.GetId(), agent.GetTasks()
	away := agent.GetState() == api.AgentDisconnected.String() || agent.GetState() == api.AgentTombstone.String()
	switch {
	case away:
		return fmt.Sprintf("%s is %s and obeys when it is back (or give it up: tender gone %s)", id, agent.GetState(), id)
	case len(agent.GetUnacknowledged()) > 0 && tasks == 0:
		return fmt.Sprintf("%s is empty, and not everybody has acknowledged the ends yet: %s (--force waits for none that is away)", id, listed(agent.GetUnacknowledged()))
	case tasks == 0:
		return id + " is empty, and is being marked drained"
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

// listed names the first few of them.
func listed(names []string) string { return words.Some(names, namedMax) }

// Choose finds the agents that a person names: each by its whole ID or hostname, or all that have every one of the
// attributes (KEY=VALUE; zone and region count as attributes). It finds all of them, each once, or returns an error.
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
	var found, gone []*apiv1.AgentView
	for _, agent := range all {
		switch {
		case word == agent.GetId():
			return agent, nil
		case word != agent.GetHostname():
		case marked(agent, api.MarkGone):
			gone = append(gone, agent)
		default:
			found = append(found, agent)
		}
	}
	if len(found) == 0 { // else the host has come back as another agent
		found = gone
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
