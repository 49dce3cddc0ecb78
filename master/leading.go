package master

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/raftlog"
)

// stuckMax bounds the loops that are stuck and were abandoned: with so many of them this
// master leads no more until one has come round.
const stuckMax = 2

// lead runs one leader after the other.
func (m *Master) lead(ctx context.Context) error {
	for lead := range m.raft.Leaderships() {
		if m.stuck.Load() >= stuckMax {
			lead.End("loops of earlier leaderships of this master are still stuck")
			continue
		}
		config := m.config.AllocatorConfig
		config.Compile = m.programs.Compile
		policy, err := allocator.Make(m.config.Allocator, config)
		if err != nil {
			return api.E("master.lead", api.Invalid, m.config.Allocator, err)
		}
		m.leadOnce(ctx, lead, policy)
	}
	return nil
}

// leadOnce leads until the leadership is over. It does not wait for a loop that is stuck.
func (m *Master) leadOnce(ctx context.Context, lead *raftlog.Leadership, policy allocator.Allocator) {
	policy, recorder := m.record(policy)
	l := newLeader(m, lead, policy)
	m.leading.Store(l)
	m.changed.fire()
	m.news.fire()
	ended, stuck := make(chan struct{}), make(chan string, 1)
	watching, stop := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		defer recorder.recording()()
		l.run(ctx)
	}()
	go func() { stuck <- l.round.Watch(watching, l.longestRound) }()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		m.lookAfter(watching)
	}()
	select {
	case <-ended:
	case evidence := <-stuck:
		l.abandon(evidence)
		m.stuck.Add(1)
		go func() {
			<-ended
			m.stuck.Add(-1)
			l.log.Warn().Msg("a loop that was stuck has come round; its leadership is over")
		}()
	}
	stop()
	<-looked
	m.changed.fire()
	level := zerolog.WarnLevel
	if ctx.Err() != nil { // we end, and everybody knows
		level = zerolog.DebugLevel
	}
	m.log.WithLevel(level).Stringer("term", l.term).Str("why", lead.Why()).Msg("leadership is over")
}
