package remote

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// queueMax bounds the inputs that wait to be sent. Beyond it the other process is too
// slow: the session ends and the next one is told what matters, once.
const queueMax = 1 << 20

// session is what one stream has been told and has answered. Guarded by Allocator.mu.
type session struct {
	queue     []inputs.Input // not sent yet
	sent      uint64         // inputs that have left the queue
	fresh     int            // inputs since the last run
	running   bool           // a run is under way, or its answer has not been taken
	run       uint64         // its number
	asked     time.Time      // when it was asked for
	arrived   *allocator.Allocation
	wake      time.Time
	questions []*apiv1.AllocatorQuestion // not sent yet
	kick      chan struct{}              // the writer has something to do
	broken    error                      // what ends the session; its writer sees it

	// removed names by which input an agent or framework was removed, so that a proposal
	// that did not see it is dropped: the other process has forgotten it with the rest.
	removedAgents     map[api.AgentID]uint64
	removedFrameworks map[api.FrameworkID]uint64
	// retold is what was told as taken though it is an open offer, for this session did
	// not propose it. A task launched from it is therefore told as taken too.
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

// put queues an input and returns its number.
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

// note queues an input as this session has to hear it.
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

// launch tells of a task, or an executor, from an offer of this session or another.
func (s *session) launch(i inputs.Launch) {
	if held, ok := s.retold[placeOf(i.Claim)]; !ok || !held.Contains(i.Claim.Resources) {
		s.put(i)
		return
	}
	if i.Claim.Task == "" {
		return // stays taken, as it is
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

// ask sends what has happened and asks for proposals, one run at a time.
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

// awaits says whether an answer to a run is awaited.
func (s *session) awaits(run uint64) error {
	if !s.running || run != s.run || s.arrived != nil {
		return fmt.Errorf("it answers run %d, which was not asked for", run)
	}
	return nil
}

// answered takes the whole of an answer that is awaited.
func (s *session) answered(allocation allocator.Allocation, wake time.Time) {
	s.arrived, s.wake = &allocation, wake
}

// take returns what has arrived, without what the other process knows to be void.
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
	clear(s.removedAgents) // all later removals are seen by the next run
	clear(s.removedFrameworks)
	return allocation
}
