package guard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenderhq/tender/api"
)

// shares counts for each principal the calls and streams that it has under way.
type shares struct {
	refused *prometheus.CounterVec
	names   Names // the principals of refused calls that the metric names

	mu   sync.Mutex
	held map[share]int // guarded by mu; no value is zero
}

type share struct{ principal, of string }

func newShares(metrics prometheus.Registerer) *shares {
	s := &shares{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tender_principal_limited_total", Help: "Calls that were refused because their principal had too many under way, by what of, and by which.",
		}, []string{"of", "principal"}),
		held: make(map[share]int),
	}
	metrics.MustRegister(s.refused)
	return s
}

// BusyRetry is when to retry a call that was refused because too much was under way.
const BusyRetry = time.Second

// Share takes one of the calls or streams that a principal may have under way at this master, so that the rest is left
// to others. Call leave when the call has ended. There is no bound for masters and agents, nor in a cluster that
// identifies nobody.
func (g *Guard) Share(ctx context.Context, of string, most int) (leave func(), err error) {
	caller := CallerOf(ctx)
	which := share{caller.Principal(), of}
	if which.principal == "" {
		return func() {}, nil
	}
	if !g.shares.take(which, most) {
		g.shares.refused.WithLabelValues(of, g.shares.names.Of(which.principal)).Inc()
		err := api.E("master.call", api.Limit, which.principal,
			fmt.Errorf("%d %s of this principal are under way at this master, which is the most that one may have; end some, and come back in %v", most, of, BusyRetry)).RetryIn(BusyRetry)
		g.log.Warn().Stringer("who", caller).Str("from", From(ctx)).Err(err).Msg("refused a request: the principal has too many under way")
		return nil, err
	}
	return func() { g.shares.give(which) }, nil
}

func (s *shares) take(which share, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[which] >= most {
		return false
	}
	s.held[which]++
	return true
}

func (s *shares) give(which share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[which]--; s.held[which] == 0 {
		delete(s.held, which)
	}
}
