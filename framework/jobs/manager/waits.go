package manager

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/internal/jobs/keeper"
)

// waits remembers for a moment what the leader has said of shapes for which jobs wait: many people and many jobs may ask
// for the same.
type waits struct {
	mu   sync.Mutex
	said map[string]saidOf // by the key of the shape
}

type saidOf struct {
	at      time.Time
	reasons []string
	inVain  bool
}

const (
	// waitsFor is for how long an answer of the leader is used again.
	waitsFor = 2 * time.Second
	// waitsMax bounds the answers that are remembered; beyond it all are forgotten.
	waitsMax = 1000
	// waitsAsked is how long the leader's answers are awaited for all that is shown at a time; then it is shown without.
	waitsAsked = time.Second
)

// whyWaits says what keeps those tasks of a job that wait from an agent, by the job's own demand. inVain says that some
// wait in vain as the cluster is; then the first reason is why.
func (m *Manager) whyWaits(ctx context.Context, name string) (reasons []string, inVain bool) {
	asks, keys, client := m.asksOf(name)
	for i, ask := range asks {
		answer, is := m.waits.of(ctx, client, keys[i], ask)
		if !is {
			continue
		}
		if answer.inVain && !inVain {
			inVain, reasons = true, append(answer.reasons[:len(answer.reasons):len(answer.reasons)], reasons...)
			continue
		}
		reasons = append(reasons, answer.reasons...)
	}
	return reasons, inVain
}

// asksOf returns for what a job waits; nothing if it waits for its role, in which the masters know no demand.
func (m *Manager) asksOf(name string) (asks []core.Ask, keys []string, client masters) {
	m.mu.Lock()
	defer m.mu.Unlock()
	master := m.keeper.Job(name)
	if master == nil || m.client == nil || m.roles.refused[master.Job.Role] != nil {
		return nil, nil, nil
	}
	asks, keys = m.keeper.Waits(name)
	return asks, keys, m.client
}

// of asks the leader about what an ask waits for, if that was not asked just now; false: it did not answer.
func (w *waits) of(ctx context.Context, client masters, key string, ask core.Ask) (answer saidOf, is bool) {
	shape := keeper.ShapeOf(ask)
	if shape.Count = 1; ask.Gang {
		shape.Count = int64(ask.Count)
		key = fmt.Sprint("a gang of ", ask.Count, "\n", key)
	}
	w.mu.Lock()
	answer, is = w.said[key]
	w.mu.Unlock()
	if is && time.Since(answer.at) < waitsFor {
		return answer, len(answer.reasons) > 0
	}
	reasons, inVain, err := client.ExplainShape(ctx, ask.Role, shape, ask.Gang)
	if err != nil { // the status is what was asked for
		return answer, false
	}
	answer = saidOf{time.Now(), reasons, inVain && len(reasons) > 0}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said == nil || len(w.said) >= waitsMax {
		w.said = make(map[string]saidOf)
	}
	w.said[key] = answer
	return answer, len(reasons) > 0
}
