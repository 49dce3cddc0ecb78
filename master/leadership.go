package master

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/internal/forward"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// leadership is who leads, as this master knows: itself, another, or nobody. While it is this master, what others ask of
// the leader goes through here into its loop. It decides nothing, and knows no other master but by its address.
type leadership struct {
	config    *Config
	raft      *raftlog.Log
	intake    *intake.Intake
	listeners *listeners
	listings  listings

	now     atomic.Pointer[leader] // nil: this master does not lead
	changed *broadcast             // fired whenever this master begins or ends to lead
	news    *broadcast             // fired when this master hears of a new leader
	leaving atomic.Bool            // this master is ending: callers that wait for a leader must not wait any longer
	beside  sync.WaitGroup         // goroutines that read and write streams
}

// mine returns this master's leadership; while it does not lead, an error that names the leader.
func (d *leadership) mine(op string) (*leader, error) {
	if l := d.now.Load(); l != nil {
		return l, nil
	}
	return nil, d.notLeader(op)
}

// term reports whether this master leads, and in which term.
func (d *leadership) term() (api.Term, bool) {
	if l := d.now.Load(); l != nil {
		return l.lead.Term, true
	}
	return api.Term{}, false
}

// leader returns the leader and its gRPC address, as far as this master knows; "" when it does not know.
func (d *leadership) leader() (api.MasterID, string) {
	id, address, _ := d.leaderInTerm()
	return id, address
}

// leaderInTerm is leader with the leader's term. One that is elected and whose gate is not open yet is not known.
func (d *leadership) leaderInTerm() (id api.MasterID, address string, term api.Term) {
	if l := d.now.Load(); l != nil {
		return d.config.ID, d.listeners.grpcAddress(), l.lead.Term
	}
	id, number := d.raft.Members.LeaderInTerm()
	if id == "" || id == d.config.ID {
		return "", "", api.Term{}
	}
	state := d.raft.Outline()
	return id, state.Masters[id].GRPC, api.Term{Epoch: state.Epoch, Number: number}
}

// notLeader returns the error for calls that only a leader can serve.
func (d *leadership) notLeader(op string) *api.Error {
	_, address := d.leader()
	if missing := d.raft.Members.Missing(); address == "" && missing != "" {
		return wire.NoLeader(op, missing)
	}
	return wire.NotLeader(op, address)
}

// index returns the index of the last log entry that this master's registry includes.
func (d *leadership) index() uint64 { return d.raft.Outline().Index }

// ready reports whether this master knows a leader to which it can send clients.
func (d *leadership) ready() (ready bool, why string) {
	switch id, address := d.leader(); {
	case d.raft.Cluster() == "":
		return false, "waiting for the other masters to found or join a cluster"
	case id == "" && d.raft.Members.Missing() != "":
		return false, "nobody leads: " + d.raft.Members.Missing()
	case id == "":
		return false, "nobody leads; is a majority of the masters up?"
	default:
		return true, string(id) + " leads at " + address
	}
}

// ask runs a read of the leader's state, inside the leader's loop.
func (d *leadership) ask(ctx context.Context, op string, read func(view.Cluster, time.Time)) error {
	l, err := d.mine(op)
	if err != nil {
		return err
	}
	seen := func(c view.Cluster, now time.Time) {
		c.Sees = guard.ScopeOf(ctx)
		read(c, now)
	}
	if !d.intake.Reads.During(ctx, intake.SenderOf(ctx), intake.ReadWeight, func() { err = l.read(ctx, op, seen) }) {
		return wire.Error(ctx.Err())
	}
	return err
}

// act has the leader's core do what an operator asks for.
func (d *leadership) act(ctx context.Context, op string, action core.Action) (any, error) {
	l, err := d.mine(op)
	if err != nil {
		return nil, err
	}
	return l.request(ctx, op, action)
}

// commit makes a change of the registry, if this master leads.
func (d *leadership) commit(ctx context.Context, op string, change registry.Change) error {
	return d.onLeader(op, func(l *leader) error { return l.commit(ctx, op, change) })
}

// onLeader has this master change something, if it leads. If it ceases to meanwhile, the error names the leader.
func (d *leadership) onLeader(op string, change func(*leader) error) error {
	l, err := d.mine(op)
	if err != nil {
		return err
	}
	err = change(l)
	if api.Is(err, api.NotLeader) {
		return d.notLeader(op)
	}
	return err
}

// awaitLead returns the leadership of this master. While nobody leads, an agent waits here for a while, because
// thousands of agents that retry all the time would disturb an election. As soon as another master leads, agents are
// sent there one after the other.
func (d *leadership) awaitLead(ctx context.Context) (*leader, error) {
	const op = "agent.session"
	if l := d.now.Load(); l != nil {
		return l, nil // without what a context of its own would leave in the stream's
	}
	ctx, cancel := context.WithTimeout(ctx, intake.HeldMax)
	defer cancel()
	until := time.Now().Add(intake.HeldMax)
	for {
		news := d.news.wait()
		if l := d.now.Load(); l != nil {
			return l, nil
		}
		if _, address := d.leader(); address != "" {
			wait, ok := d.intake.Redirects.Turn(time.Now(), time.Until(until))
			if !ok {
				return nil, manyAgents("very many agents are on their way to the leader", d.config.ID)
			}
			pause.For(ctx, wait)
			if _, address := d.leader(); address != "" && d.now.Load() == nil {
				return nil, d.notLeader(op)
			}
			continue // something has changed, so look again
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, d.notLeader(op)
		}
	}
}

// awaitLeader reports whether this master should accept a connection from a peer that wants only the leader. While nobody
// leads, the peer waits for a while in its handshake, as agents wait in awaitLead. But here it has not proved its
// identity yet, and it costs little more than its connection. As soon as another master leads, waiting peers are
// refused one after the other, so that they do not all reach it at once.
func (d *leadership) awaitLeader(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, intake.HeldMax)
	defer cancel()
	for {
		news := d.news.wait()
		if d.now.Load() != nil {
			return true
		}
		if _, address := d.leader(); address != "" {
			if wait, ok := d.intake.Refusals.Turn(time.Now(), intake.RefusedWaitMax); ok {
				pause.For(ctx, wait)
			}
			return d.now.Load() != nil
		}
		if d.leaving.Load() {
			return false
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

// jobManagers returns the job managers that there are.
func (d *leadership) jobManagers(ctx context.Context) (managers []view.Endpoint, err error) {
	err = d.ask(ctx, "jobs.forward", func(c view.Cluster, _ time.Time) { managers = c.Endpoints(forward.JobsEndpoint) })
	return managers, err
}

// awaitPolicy waits until a policy in another process has answered what it was asked. It reports whether it is worth asking
// again.
func (d *leadership) awaitPolicy(ctx context.Context) bool {
	l := d.now.Load()
	if l == nil || l.policy.living == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, answerMax)
	defer cancel()
	l.policy.living.Answered(ctx)
	return true
}
