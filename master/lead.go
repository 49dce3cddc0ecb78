package master

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/master/internal/raftlog"
)

// lead serves one leadership after the other.
func (m *Master) lead(ctx context.Context) error {
	for lead := range m.raft.Leaderships() {
		if m.stuck.Load() >= stuckMax {
			lead.End("loops of earlier leaderships of this master are still stuck")
			continue
		}
		config := m.config.AllocatorConfig
		config.Compile = m.intake.Programs.Compile
		policy, err := allocator.Make(m.config.Allocator, config)
		if err != nil {
			return api.E("master.lead", api.Invalid, m.config.Allocator, err)
		}
		m.leadOnce(ctx, lead, policy)
	}
	return nil
}

// stuckMax bounds the loops that were abandoned and are still stuck. With so many of them this master refuses to lead
// until one of them has ended.
const stuckMax = 2

// leadOnce serves until the leadership is over. It does not wait for a loop that is stuck.
func (m *Master) leadOnce(ctx context.Context, lead *raftlog.Leadership, policy allocator.Allocator) {
	policy, recorder := m.record(policy)
	l := m.newLeader(lead, policy)
	m.leading.now.Store(l)
	m.leading.changed.fire()
	m.leading.news.fire()
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
		m.masters.lookAfter(watching)
	}()
	select {
	case <-ended:
	case evidence := <-stuck:
		l.abandon(evidence)
		m.stuck.Add(1)
		go func() {
			<-ended
			m.stuck.Add(-1)
			l.log.Warn().Msg("a loop that was stuck has continued; its leadership is over")
		}()
	}
	stop()
	<-looked
	m.leading.changed.fire()
	level := zerolog.WarnLevel
	if ctx.Err() != nil { // this master ends, and everybody knows
		level = zerolog.DebugLevel
	}
	m.log.WithLevel(level).Stringer("term", l.lead.Term).Str("why", lead.Why()).Msg("leadership is over")
}

// policyRun runs the policy of a leadership, if the policy does something on its own.
type policyRun struct {
	living living        // nil: the policy does nothing on its own
	nudges chan struct{} // signals that the policy has something to propose
	may    func(trust.Identity) error
	rights *broadcast

	mu       sync.Mutex
	conn     net.Conn       // the last connection to a policy in another process
	identity trust.Identity // the identity that the other end has shown on it
}

// living is a policy that does something on its own, such as one in another process. It runs while this master leads.
type living interface {
	allocator.Allocator
	// Run returns when ctx ends. It calls ready when Allocate has something to do, and say when something should be
	// logged: that there is trouble, or that it is over.
	Run(ctx context.Context, ready func(), say func(trouble bool, message, why string))
	// Answered waits until the policy can answer what Explain asked, or until ctx ends.
	Answered(ctx context.Context)
}

// distant is a policy that is reached over a connection.
type distant interface {
	// DialBy sets how connections are opened. It is called before Run.
	DialBy(dial func(ctx context.Context, address string) (net.Conn, error))
}

// newPolicyRun prepares a policy to run. A policy that is reached over a connection may do only what its principal was
// granted.
func (m *Master) newPolicyRun(policy allocator.Allocator) *policyRun {
	run := &policyRun{nudges: make(chan struct{}, 1), rights: m.rights, may: func(who trust.Identity) error {
		return m.guard.May(apiv1.AllocatorService_Session_FullMethodName, who)
	}}
	run.living, _ = policy.(living)
	if far, is := policy.(distant); is {
		far.DialBy(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := m.proof.holder.Dialer(m.config.Dial, trust.Framework)(ctx, address)
			if err != nil || m.proof.holder == nil {
				return conn, err
			}
			return run.admit(conn)
		})
	}
	return run
}

// admit takes a connection to a policy in another process, if that has shown the certificate of a principal that may
// allocate.
func (p *policyRun) admit(conn net.Conn) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn, p.identity = conn, trust.PeerOf(conn)
	if err := p.check(); err != nil {
		return nil, err
	}
	return conn, nil
}

// check closes the connection, if there is one and its principal may not allocate (any more), and returns the reason.
func (p *policyRun) check() error {
	if p.conn == nil {
		return nil
	}
	err := p.may(p.identity)
	if err != nil {
		_ = p.conn.Close() // nothing that it still says counts
		p.conn = nil
	}
	return err
}

// watchRights closes the connection to a policy in another process when its principal may no longer allocate. It
// returns when ctx ends.
func (p *policyRun) watchRights(ctx context.Context, log zerolog.Logger) {
	for ctx.Err() == nil {
		news := p.rights.wait()
		p.mu.Lock()
		err := p.check()
		p.mu.Unlock()
		if err != nil {
			log.Warn().Err(err).Msg("the connection to the allocator is closed: it has lost the right")
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
}

// runPolicy runs a policy that does something on its own. The returned function stops it and waits for its end.
func (l *leader) runPolicy(ctx context.Context) (stop func()) {
	if l.policy.living == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	ready := func() {
		select {
		case l.policy.nudges <- struct{}{}:
		default: // the loop is going to look at the policy anyway
		}
	}
	say := func(trouble bool, message, why string) {
		level := zerolog.InfoLevel
		if trouble {
			level = zerolog.WarnLevel
		}
		l.log.WithLevel(level).Str("why", why).Msg(message)
	}
	running.Go(func() { l.policy.living.Run(ctx, ready, say) })
	running.Go(func() { l.policy.watchRights(ctx, l.log) })
	return func() { cancel(); running.Wait() }
}

// answerMax is how long an explanation waits for a policy in another process.
const answerMax = 2 * time.Second
