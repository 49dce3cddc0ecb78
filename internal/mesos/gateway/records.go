package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/mesos/envelope"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

const (
	// recordsPrefix begins the keys of the framework's store that hold the launches which have not begun.
	recordsPrefix = "mesos/launch/"
	// recordBytesMax keeps a record below the size of a value.
	recordBytesMax = 512 << 10
	// storeTimeout bounds how long the answer to an accept waits until its launches are in the framework's store. Without a
	// leader for longer than that they are in this process alone, and the framework has to reconcile if it ends, as with
	// Mesos.
	storeTimeout = 5 * time.Second
)

// record is a value in the framework's store: the launches of an accept that have not begun. It is there before the
// accept is answered, so that the next gateway knows them if this one is killed. A task has left it before its end is
// told: another gateway would launch it again otherwise. The session's mu guards it.
type record struct {
	key     string
	left    []*launch
	leaving []*launch // those that have begun since it was written last
	writing bool      // a goroutine writes it
}

// keep writes launches to the framework's store.
func (s *session) keep(launches []*launch) {
	ctx, done := context.WithTimeout(s.gateway.life, storeTimeout)
	defer done()
	for _, r := range s.newRecords(launches) {
		s.logged(s.store(ctx, r.key, r.left))
	}
}

// newRecords divides launches among records, and notes that they are on their way.
func (s *session) newRecords(launches []*launch) (records []*record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := 0
	for _, one := range launches {
		size := proto.Size(one.written)
		if room -= size; room < 0 || len(records) == 0 {
			s.launches.records++
			records = append(records, &record{key: fmt.Sprintf("%s%s-%d", recordsPrefix, s.stream, s.launches.records)})
			room = recordBytesMax - size
		}
		one.record = records[len(records)-1]
		one.record.left = append(one.record.left, one)
		s.launches.add(one)
	}
	return records
}

// store writes a record with these launches; none: it is deleted.
func (s *session) store(ctx context.Context, key string, launches []*launch) error {
	if len(launches) == 0 {
		err := s.client.Store().Delete(ctx, key, framework.AnyVersion)
		if api.Is(err, api.NotFound) { // there was no room for it, or no leader
			return nil
		}
		return err
	}
	accepted := new(envelope.Accepted)
	for _, one := range launches {
		accepted.Operations, accepted.Role = append(accepted.Operations, one.written), string(one.role)
	}
	value, err := proto.Marshal(accepted)
	if err != nil {
		return err
	}
	_, err = s.client.Store().Put(ctx, key, value, framework.AnyVersion)
	return err
}

// takeOut ends the wait for a launch: one of its tasks has begun, or none ever will. The caller holds mu.
func (s *session) takeOut(one *launch) {
	is := func(other *launch) bool { return other == one }
	for _, task := range one.operation.Tasks {
		delete(s.launches.byTask, task.ID)
		s.launches.leaving[task.ID] = one
	}
	s.launches.held = slices.DeleteFunc(s.launches.held, is)
	one.out = make(chan struct{})
	r := one.record
	r.left, r.leaving = slices.DeleteFunc(r.left, is), append(r.leaving, one)
	if len(r.left) == 0 {
		s.renew(r)
	}
}

// renew has a record written in the background, if that is due. The caller holds mu.
func (s *session) renew(r *record) {
	if !r.writing && len(r.leaving) > 0 {
		r.writing = true
		go s.write(r) // until nothing changes any more, or the session ends
	}
}

// write keeps a record in step with what is left of it.
func (s *session) write(r *record) {
	for {
		s.mu.Lock()
		leaving, left := r.leaving, slices.Clone(r.left)
		r.leaving, r.writing = nil, len(leaving) > 0
		s.mu.Unlock()
		if len(leaving) == 0 {
			return
		}
		err := s.store(s.gateway.life, r.key, left)
		if err != nil {
			s.logged(fmt.Errorf("what has begun is in the store still: %w", err))
		}
		s.mu.Lock()
		for _, one := range leaving {
			for _, task := range one.operation.Tasks {
				if s.launches.leaving[task.ID] == one {
					delete(s.launches.leaving, task.ID)
				}
			}
			close(one.out)
		}
		s.mu.Unlock()
	}
}

// updateInTurn tells a status. An end waits until its task is in the framework's store no longer.
func (s *session) updateInTurn(status api.Status, written *mesosv1.TaskStatus) {
	s.mu.Lock()
	one := s.launches.leaving[status.Task]
	if one == nil || !status.State.Terminal() {
		s.mu.Unlock()
		s.update(written)
		return
	}
	s.renew(one.record)
	s.mu.Unlock()
	go func() {
		select {
		case <-one.out:
			s.update(written)
		case <-s.done: // the next session is told
		}
	}()
}

// readRecords takes over the launches that an earlier gateway has accepted. What has become of them is asked for first.
func (s *session) readRecords(entries []framework.Entry) error {
	var asked []api.TaskID
	for _, entry := range entries {
		accepted := new(envelope.Accepted)
		if err := proto.Unmarshal(entry.Value, accepted); err != nil {
			return errors.Join(err, s.client.Store().Delete(s.gateway.life, entry.Key, framework.AnyVersion))
		}
		r := &record{key: entry.Key}
		for _, operation := range accepted.GetOperations() {
			at := place{role: api.Role(accepted.GetRole())}
			for _, info := range tasksOf(operation) {
				at.agent = api.AgentID(info.GetAgentId().GetValue())
			}
			for _, one := range s.readLaunches(at, operation) {
				one.record, one.asked = r, true
				r.left = append(r.left, one)
				for _, task := range one.operation.Tasks {
					asked = append(asked, task.ID)
				}
			}
		}
		s.mu.Lock()
		for _, one := range r.left {
			s.launches.add(one)
		}
		s.mu.Unlock()
	}
	if len(asked) == 0 {
		return nil
	}
	return s.client.Reconcile(asked...)
}
