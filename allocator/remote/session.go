package remote

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// queueMax bounds the inputs that wait to be sent. Beyond it the other process is too slow: the session is ended, and
// the next one is told only the present state.
const queueMax = 1 << 20

// session is what one stream has been told and has answered. Allocator.mu guards it.
type session struct {
	queue     []inputs.Input // inputs that are not sent yet
	sent      uint64         // number of inputs that have left the queue
	fresh     int            // number of inputs since the last run
	running   bool           // the other process runs the policy, or its answer has not been taken yet
	run       uint64         // number of that run
	asked     time.Time      // when the run was asked for
	arrived   *allocator.Allocation
	wake      time.Time
	questions []*apiv1.AllocatorQuestion // questions that are not sent yet
	kick      chan struct{}              // wakes the writer
	broken    error                      // why the session must end; its writer sees it

	// removedAgents and removedFrameworks hold the number of the input with which an agent or framework was removed. A
	// proposal of a run that had not seen that input is dropped: the other process has forgotten it together with the
	// agent or framework.
	removedAgents     map[api.AgentID]uint64
	removedFrameworks map[api.FrameworkID]uint64
	// retold holds the open offers that were told as taken, because another session proposed them. A task that is
	// launched from such an offer is therefore told as taken too.
	retold map[place]api.Resources
}

type place struct {
	framework api.FrameworkID
	role      api.Role
	agent     api.AgentID
}

func placeOf(c allocator.Claim) place { return place{c.Framework, c.Role, c.Agent} }

func newSession(mirror *inputs.Mirror) *session {
	s := &session{
		kick:              make(chan struct{}, 1),
		removedAgents:     make(map[api.AgentID]uint64),
		removedFrameworks: make(map[api.FrameworkID]uint64),
		retold:            make(map[place]api.Resources),
	}
	s.queue = mirror.Inputs()
	s.fresh = len(s.queue)
	for _, input := range s.queue {
		if take, is := input.(inputs.Take); is && take.Claim.Task == "" {
			s.retold[placeOf(take.Claim)] = take.Claim.Resources
		}
	}
	return s
}

func (s *session) wakeWriter() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// put queues an input and returns the input's number.
func (s *session) put(input inputs.Input) uint64 {
	s.queue = append(s.queue, input)
	s.fresh++
	if len(s.queue) > queueMax {
		s.fail(fmt.Errorf("it is too slow: %d inputs wait", len(s.queue)))
	}
	return s.sent + uint64(len(s.queue))
}

func (s *session) fail(err error) {
	if s.broken == nil {
		s.broken = err
	}
	s.wakeWriter()
}

// note queues an input in the form in which this session has to be told it.
func (s *session) note(input inputs.Input) {
	switch i := input.(type) {
	case inputs.RemoveAgent:
		s.removedAgents[i.Agent] = s.put(i)
	case inputs.RemoveFramework:
		s.removedFrameworks[i.Framework] = s.put(i)
	case inputs.Launch:
		s.launch(i)
	case inputs.Return:
		s.unretell(i.Claim)
		s.put(i)
	default:
		s.put(i)
	}
}

// launch tells the other process of a task or an executor, launched from an offer of this session or of an earlier one.
func (s *session) launch(i inputs.Launch) {
	if held, ok := s.retold[placeOf(i.Claim)]; !ok || !held.Contains(i.Claim.Resources) {
		s.put(i)
		return
	}
	if i.Claim.Task == "" {
		return // it stays taken
	}
	s.unretell(i.Claim)
	loose := i.Claim
	loose.Task, loose.Since = "", time.Time{}
	s.put(inputs.Return{Claim: loose})
	s.put(inputs.Take(i))
}

func (s *session) unretell(claim allocator.Claim) {
	where := placeOf(claim)
	held, ok := s.retold[where]
	if !ok {
		return
	}
	if held = held.Without(claim.Resources); held.IsZero() {
		delete(s.retold, where)
	} else {
		s.retold[where] = held
	}
}

// ask asks the other process for proposals if something has happened. One run is under way at a time.
func (s *session) ask(now time.Time) {
	due := !s.wake.IsZero() && !now.Before(s.wake)
	if s.running || s.fresh == 0 && !due {
		return
	}
	s.run = s.put(inputs.Allocate{At: now})
	s.running, s.fresh, s.wake = true, 0, time.Time{}
	s.asked = time.Now()
	s.wakeWriter()
}

// awaits returns an error unless an answer to this run is awaited.
func (s *session) awaits(run uint64) error {
	if !s.running || run != s.run || s.arrived != nil {
		return fmt.Errorf("it answers run %d, which was not asked for", run)
	}
	return nil
}

// take returns the proposals that have arrived, without those that are void because their agent or framework was
// removed.
func (s *session) take() allocator.Allocation {
	if s.arrived == nil {
		return allocator.Allocation{}
	}
	allocation := *s.arrived
	s.arrived, s.running = nil, false
	kept := allocation.Offers[:0]
	for _, offer := range allocation.Offers {
		if s.removedAgents[offer.Agent] < s.run && s.removedFrameworks[offer.Framework] < s.run {
			kept = append(kept, offer)
		}
	}
	allocation.Offers = kept
	clear(s.removedAgents) // the next run sees all later removals
	clear(s.removedFrameworks)
	return allocation
}
