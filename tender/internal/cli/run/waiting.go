package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// patience is how long a task waits before the reason is asked for.
	patience = 2 * time.Second
	// sureAfter is how many checks in a row must find no agent that is large enough, because one may be about to
	// register.
	sureAfter = 2
	// lookMax limits one check, so that a failover does not delay the answer to a Ctrl-C for longer.
	lookMax = time.Second
)

// waiting is what a run that waits has found out.
type waiting struct {
	tooLarge int
	why      causes
}

// causes are the reasons that were reported in one wait. Of several that are about as near, sometimes one comes first
// and sometimes another. Each is reported once, until something was launched or the masters were away.
type causes map[string]bool

// said is the last sentence of one kind.
type said struct {
	plain string // the sentence without its numbers
}

// look reports why instances wait, and ends the run if they would wait for ever.
func (r *runner) look(ctx context.Context) error {
	now := time.Now()
	if r.job.idle(now) < patience {
		r.waiting = waiting{}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	agents, _, err := client.All(ctx, r.config.Operator.ListAgents, 0, &apiv1.ListRequest{})
	if err != nil {
		if trouble := r.trouble(); trouble != nil {
			r.sayAnew(fmt.Sprintf("waiting for a master: %v", trouble))
		}
		return nil
	}
	if err := r.judge(agents); err != nil {
		if r.waiting.tooLarge++; r.waiting.tooLarge >= sureAfter {
			return err
		}
		return nil
	}
	r.waiting.tooLarge = 0
	r.sayCause(r.reason(ctx, agents))
	return nil
}

// say reports a sentence once, and again when it has changed. A number that has changed is not a change.
func (r *runner) say(last *said, text string) {
	if plain := withoutNumbers(text); plain != last.plain {
		last.plain = plain
		r.config.Say("%s", text)
	}
}

// sayCause reports why instances wait, unless it was reported in this wait.
func (r *runner) sayCause(text string) {
	plain := withoutNumbers(text)
	if r.waiting.why[plain] {
		return
	}
	if r.waiting.why == nil {
		r.waiting.why = make(causes)
	}
	r.waiting.why[plain] = true
	r.config.Say("%s", text)
}

// sayAnew reports something once after which earlier reasons are reported again.
func (r *runner) sayAnew(text string) {
	if plain := withoutNumbers(text); !r.waiting.why[plain] {
		r.waiting.why = nil
		r.sayCause(text)
	}
}

// withoutNumbers removes numbers, but keeps the digits in names such as agent-2.
func withoutNumbers(text string) string {
	var kept strings.Builder
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(word, unicode.IsLetter) && strings.ContainsRune(word, '-') {
			kept.WriteString(word)
		} else {
			kept.WriteString(strings.Map(func(r rune) rune {
				if unicode.IsDigit(r) || r == '.' {
					return -1
				}
				return r
			}, word))
		}
		kept.WriteByte(' ')
	}
	return kept.String()
}

// judge returns a TooLarge if every agent is known and none could ever hold the task.
func (r *runner) judge(agents []*apiv1.AgentView) error {
	asked := pack.Ask(r.config.Task)
	var largest api.Resources
	for _, agent := range agents {
		if agent.GetState() == api.AgentTombstone.String() || slices.Contains(agent.GetMarks(), "gone") {
			continue
		}
		total, err := wire.ResourcesFromStruct(agent.GetTotal())
		if err != nil || total.IsZero() {
			return nil //nolint:nilerr // not known yet, or not to us: then nobody can say that it never fits
		}
		usable := total.UsableBy(r.config.Role)
		// Revocable resources come and go, up to all that the agent has.
		if _, _, fits := usable.Plus(usable.AsRevocable()).Carve(asked); fits {
			return nil
		}
		if share(usable, asked) > share(largest, asked) || largest.IsZero() {
			largest = usable
		}
	}
	if largest.IsZero() {
		return nil
	}
	return &TooLarge{Asked: amountsText(asked), Largest: amountsText(ofThese(largest, asked))}
}

// share returns which part of what is asked an agent has, for the kind of resource of which it has least.
func share(has, asked api.Resources) float64 {
	least := 1.0
	for _, item := range asked.Items() {
		if item.Scalar > 0 {
			least = min(least, has.Scalar(item.Name).Float()/item.Scalar.Float())
		}
	}
	return least
}

// ofThese returns the resources with the names that are asked for, without labels; missing ones are left out.
func ofThese(has, asked api.Resources) api.Resources {
	return has.Plain().Filter(func(l api.Label) bool {
		return slices.ContainsFunc(asked.Items(), func(item api.Resource) bool { return item.Name == l.Name })
	})
}

// amountsText returns resources as `get` shows them.
func amountsText(resources api.Resources) string {
	parts := make([]string, 0, len(resources.Items()))
	for _, item := range resources.Items() {
		amount, ok := strings.CutPrefix(api.NewResources(item).String(), item.Label.String()+":")
		if !ok {
			amount = "?"
		}
		parts = append(parts, fmt.Sprintf("%s %s", item.Label, amount))
	}
	if len(parts) == 0 {
		return "none of it"
	}
	return strings.Join(parts, ", ")
}
