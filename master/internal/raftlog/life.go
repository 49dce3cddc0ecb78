package raftlog

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
)

// life is one life of the library: Raft, and the end of it. What Raft is asked for answers at that end at the latest.
type life struct {
	*raft.Raft
	over chan struct{} // closed when Raft has ended, or has been given up
}

func (r *life) apply(data []byte) raft.ApplyFuture { return endsWith(r.Raft.Apply(data, 0), r.over) }

func (r *life) barrier() raft.Future { return endsWith(r.Raft.Barrier(0), r.over) }

func (r *life) verify() raft.Future { return endsWith(r.Raft.VerifyLeader(), r.over) }

func (r *life) snapshot() raft.Future { return endsWith(raft.Future(r.Raft.Snapshot()), r.over) }

func (r *life) addNonvoter(peer Peer) raft.Future {
	return endsWith(r.Raft.AddNonvoter(raft.ServerID(peer.ID), raft.ServerAddress(peer.Addr), 0, 0), r.over)
}

func (r *life) addVoter(peer Peer) raft.Future {
	return endsWith(r.Raft.AddVoter(raft.ServerID(peer.ID), raft.ServerAddress(peer.Addr), 0, 0), r.over)
}

func (r *life) remove(id api.MasterID) raft.Future {
	return endsWith(r.Raft.RemoveServer(raft.ServerID(id), 0, 0), r.over)
}

// handOver gives leadership to a voter; without one to whoever is most up to date.
func (r *life) handOver(to Peer) raft.Future {
	if to.ID == "" {
		return endsWith(r.Raft.LeadershipTransfer(), r.over)
	}
	return endsWith(r.Raft.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(to.Addr)), r.over)
}

// endsWith has a future answer raft.ErrRaftShutdown once over is closed. The library forgets what its queues hold when it
// ends: whoever waits for such a future would wait for as long as the process lives. A future looks at an end of its own,
// which the library gives to some kinds of them only; a future without one answers at once.
func endsWith[F raft.Future](future F, over chan struct{}) F {
	value := reflect.Indirect(reflect.ValueOf(future))
	if value.Kind() == reflect.Struct {
		if end := value.FieldByName("ShutdownCh"); end.CanSet() {
			end.Set(reflect.ValueOf(over))
		}
	}
	return future
}

// await waits for a future of a life, or for the end of ctx.
func await(ctx context.Context, future raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- future.Error() }() // ends with Raft at the latest
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patienceWithRaft is how long the end of a leadership and of Raft wait for the library. What it has not answered by then
// is given up: a process that can't end Raft has to end itself.
const patienceWithRaft = 10 * time.Second

// settled waits for a future, but not for ever: Run's goroutine has other things to do.
func settled(future raft.Future) error {
	ctx, cancel := context.WithTimeout(context.Background(), patienceWithRaft)
	defer cancel()
	return await(ctx, future)
}

// end ends Raft, and whoever waits for it.
func (r *life) end(id api.MasterID) error {
	ended := within(patienceWithRaft, func() { _ = r.Shutdown().Error() })
	close(r.over)
	if !ended {
		return api.E("raft.stop", api.Internal, string(id), errors.New("raft does not end; this process must"))
	}
	return nil
}

// within runs do and says whether it ended in time.
func within(limit time.Duration, do func()) bool {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
