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
// told: another gateway would launch it again otherwise. A record of which all have begun is written anew with the
// launches of the next accept, so that most accepts are one write. The session's mu guards it.
type record struct {
	key     string
	left    []*launch
	leaving []*launch // those that have begun since it was written last
	writing bool      // somebody writes it
}

// keep writes launches to the framework's store.
func (s *session) keep(launches []*launch) {
	ctx, done := context.WithTimeout(s.gateway.life, storeTimeout)
	defer done()
	for _, r := range s.newRecords(launches) {
		if s.writeOnce(ctx, r) {
			go s.write(r) // until nothing changes any more, or the session ends
		}
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
			records = append(records, s.newRecord())
			room = recordBytesMax - size
		}
		one.record = records[len(records)-1]
		one.record.left = append(one.record.left, one)
		s.launches.add(one)
	}
	return records
}

// newRecord returns a record in which there is nothing left, and which nobody else writes. The caller holds mu.
func (s *session) newRecord() *record {
	at := slices.IndexFunc(s.launches.spent, func(r *record) bool { return !r.writing })
	if at < 0 {
		s.launches.records++
		return &record{key: fmt.Sprintf("%s%s-%d", recordsPrefix, s.stream, s.launches.records), writing: true}
	}
	r := s.launches.spent[at]
	s.launches.spent = slices.Delete(s.launches.spent, at, at+1)
	r.writing = true
	return r
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
		s.launches.spent = append(s.launches.spent, r)
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
	for s.writeOnce(s.gateway.life, r) { // it changes meanwhile
	}
}

// writeOnce writes a record as it is, and says whether it has changed again. Without a leader for as long as ctx allows,
// it has to be written once more.
func (s *session) writeOnce(ctx context.Context, r *record) (changed bool) {
	s.mu.Lock()
	leaving, left := r.leaving, slices.Clone(r.left)
	r.leaving = nil
	s.mu.Unlock()
	err := s.store(ctx, r.key, left)
	s.logged(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil && s.gateway.life.Err() == nil {
		r.leaving = append(leaving, r.leaving...)
		return true
	}
	for _, one := range leaving {
		for _, task := range one.operation.Tasks {
			if s.launches.leaving[task.ID] == one {
				delete(s.launches.leaving, task.ID)
			}
		}
		close(one.out)
	}
	if r.writing = len(r.leaving) > 0; !r.writing && len(left) == 0 { // it is deleted
		s.launches.spent = slices.DeleteFunc(s.launches.spent, func(other *record) bool { return other == r })
	}
	return r.writing
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
