package raftlog

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
)

// Run takes part in the quorum until ctx ends, this master is removed, or it can't continue. It closes the files and
// the listener. Everything that it has started has ended when it returns.
func (l *Log) Run(ctx context.Context) error {
	l.network.start()
	err := l.liveOnce(ctx)
	l.network.close()
	l.loop.asking.Wait()
	l.machine.hashing.Wait()
	close(l.reign.leaderships)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, l.folder.close())
}

func (l *Log) liveOnce(ctx context.Context) error {
	if err := l.awaitAdmission(ctx); err != nil {
		return err
	}
	for {
		if again, err := l.runRaft(ctx); !again {
			return err
		}
		l.config.Logger.Warn().Msg("Raft is started again")
	}
}

// transportTimeout bounds one exchange between masters; a snapshot gets more, by its size.
const transportTimeout = 10 * time.Second

// onePerPeer switches the library's pipelining off. With pipelining, a follower's refusal can leave the sender and the
// receiver of a pipeline waiting for each other for ever. Then that follower gets heartbeats but no entry until the
// leader's process ends, and that process hangs as well (hashicorp/raft#612, open; found here by chaos tests in virtual
// time).
const onePerPeer = 1

func (l *Log) raftConfig() *raft.Config {
	times := timings[l.config.Profile]
	config := raft.DefaultConfig()
	config.LocalID = l.self.server()
	config.HeartbeatTimeout = times.heartbeat
	config.ElectionTimeout = times.election
	config.LeaderLeaseTimeout = times.lease
	config.CommitTimeout = times.commit
	config.SnapshotThreshold = l.config.SnapshotEntries
	config.SnapshotInterval = 30 * time.Second
	config.TrailingLogs = l.config.trailing()
	config.MaxAppendEntries = appendEntriesMax
	config.Logger = l.raftLogger()
	return config
}

// runRaft is one life of the library. again asks for another one.
func (l *Log) runRaft(ctx context.Context) (again bool, err error) {
	if err := l.folder.checkOwnTerm(); err != nil {
		return false, err
	}
	config := l.raftConfig()
	own := l.newCarrier(config.Logger)
	transport := l.carry(own)
	founded, err := l.bootstrapRaft(config, transport)
	if err != nil {
		return false, errors.Join(wrap("raft.bootstrap", l.config.Dir, howToMakeRoom(l.config.Dir, err)), own.Close())
	}
	library, err := l.newRaft(config, transport)
	if err != nil {
		return false, errors.Join(wrap("raft.start", l.config.Dir, err), own.Close())
	}
	r := &life{Raft: library, over: make(chan struct{})}
	unwatch := l.watchRaft(r)
	l.engine.raft.Store(r)
	succession := &successor{config: l.config, self: l.self, network: l.network, raft: r, transport: transport}
	stopSucceeding := succession.watch(ctx, l.loop.departed, founded)
	again, err = l.watchLeadership(ctx, r)
	stopSucceeding()
	unwatch()
	l.engine.raft.Store(nil)
	return again, errors.Join(err, r.end(l.self.id()))
}

// newCarrier returns the transport of a life of Raft.
func (l *Log) newCarrier(log hclog.Logger) *carrier {
	stream := l.network.stream()
	known, _ := l.folder.stable.GetUint64(currentTerm) // none means 0
	return &carrier{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:                  stream,
			MaxPool:                 keptConnectionsMax,
			MaxRPCsInFlight:         onePerPeer,
			Timeout:                 transportTimeout,
			Logger:                  log,
			MsgpackUseNewTimeFormat: true,
		}),
		stream: stream, patience: l.engine.patience,
		gate: newTermGate(func() uint64 { return l.engine.term(known) }, l.engine.follows, l.engine.state),
	}
}

// newRaft begins a life of the library. The library begins by writing its term, and its goroutine ends if that is
// impossible (checkTerm).
func (l *Log) newRaft(config *raft.Config, transport raft.Transport) (*raft.Raft, error) {
	type outcome struct {
		raft *raft.Raft
		err  error
	}
	began := make(chan outcome, 1)
	go func() {
		defer close(began)
		r, err := raft.NewRaft(config, l.machine, l.folder.logs, l.folder.stable, l.folder.snapshots, transport)
		began <- outcome{r, err}
	}()
	if got, came := <-began; came {
		return got.raft, got.err
	}
	return nil, howToMakeRoom(l.config.Dir, <-l.loop.fatal)
}

// watchLeadership begins and ends leaderships until ctx ends, this master is removed, or something is wrong. again
// means that Raft must be started anew.
func (l *Log) watchLeadership(ctx context.Context, r *life) (again bool, err error) {
	defer func() { l.reign.end("raft ends") }()
	check := time.NewTicker(snapshotCheckEvery)
	defer check.Stop()
	lonely := time.NewTicker(askOthersEvery)
	defer lonely.Stop()
	for {
		select {
		case <-ctx.Done():
			l.chatter.setQuiet(true)
			l.reign.resign(r)
			return false, ctx.Err()
		case err := <-l.loop.fatal:
			return false, api.E("raft.run", api.Internal, string(l.self.id()), howToMakeRoom(l.config.Dir, err))
		case <-check.C:
			err = l.Snapshots.check(r)
		case <-lonely.C:
			l.agreement.raiseFormat(ctx, r)
			l.agreement.agreeOnHash(ctx, r)
			l.Members.correctAddresses(ctx, r)
			err = l.place.check(r)
		case request := <-l.loop.requests:
			request(r)
		case <-l.loop.full:
			l.loop.asking.Go(func() { _ = r.snapshot().Error() }) // ends with Raft at the latest
		case <-l.loop.look:
			again, err = l.lookAt(ctx, r)
		}
		if again || err != nil {
			return again, err
		}
	}
}

// lookAt compares Raft's state with what this package has made of it. A signal of a change may have been missed, so
// only the present state counts (P11).
func (l *Log) lookAt(ctx context.Context, r *life) (again bool, err error) {
	state, term := r.State(), r.CurrentTerm()
	current := l.reign.current()
	if current != nil && (state != raft.Leader || current.Term.Number != term) {
		l.reign.end("another term has begun")
		current = nil
	}
	switch {
	case state == raft.Shutdown:
		return false, removed(l.self.id())
	case state != raft.Leader:
		return false, nil
	case current != nil && !current.ended():
		return false, nil
	case l.reign.unusable != nil && l.reign.unusable.Term.Number == term:
		return l.reign.stepDown(r)
	}
	if err := l.place.checkEpoch(r); err != nil {
		return false, err
	}
	again, err = l.reign.openGate(ctx, r, term)
	l.agreement.raiseFormat(ctx, r)
	return again, err
}

// watchRaft makes Run's goroutine look again at every change of Raft's state or leader.
func (l *Log) watchRaft(r *life) (stop func()) {
	changes := make(chan raft.Observation, 16)
	over := make(chan struct{})
	observer := raft.NewObserver(changes, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.RaftState, raft.LeaderObservation, raft.FailedHeartbeatObservation, raft.ResumedHeartbeatObservation:
			return true
		}
		return false
	})
	r.RegisterObserver(observer)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		patience := quorum.Patience{}
		check := time.NewTicker(patienceCheckEvery)
		defer check.Stop()
		for {
			l.engine.beAsPatient(r, &patience)
			select {
			case <-check.C:
			case change := <-changes:
				l.others.noteHeard(r, change)
				l.loop.lookAgain()
				l.config.Changed()
			case <-over:
				return
			}
		}
	}()
	l.loop.lookAgain()
	return func() {
		r.DeregisterObserver(observer)
		close(over)
		<-ended
	}
}
