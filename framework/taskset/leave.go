package taskset

import (
	"context"
	"time"

	"github.com/tenderhq/tender/api"
)

// InverseOffers implements [framework.InverseOfferee]. For each service that is asked to leave, another task is started
// elsewhere if there is room; once that one runs, the first is killed. Work to be done once stays until it is done or
// killed.
func (s *Set) InverseOffers(_ context.Context, offers []api.InverseOffer) {
	s.runWork(func(time.Time) {
		for _, offer := range offers {
			all := s.state.leaveAgent(offer)
			// Operators see the answer. A preemption is not answered: a yes would let the masters kill at once.
			if s.client != nil && offer.Reason != api.ReasonPreempted && len(offer.Tasks) > 0 {
				if s.client.AnswerInverse(all, offer.ID) != nil { // Run has ended
					s.client = nil
				}
			}
		}
	})
}

// leaveAgent begins to move the services among the tasks of the inverse offer. It reports whether all of its tasks are
// services.
func (s *state) leaveAgent(offer api.InverseOffer) (all bool) {
	all = true
	for _, id := range offer.Tasks {
		a := s.attempts[id]
		if a == nil || !a.item.Service {
			all = false
			continue
		}
		s.moveService(a, offer)
	}
	return all
}

// moveService adds a wish for another attempt of the service, unless there is one already or this attempt is ending anyway.
func (s *state) moveService(a *attempt, offer api.InverseOffer) {
	it := a.item
	if s.items[it.ID] != it || !a.Holds() || a.IsCopy() || it.trial != nil || len(it.Attempts) > 1 || len(it.wishes) > 0 {
		return
	}
	w := s.wantAttempt(it, true, offer.Agent)
	if len(s.moves[offer.ID]) == 0 {
		s.alarms.Add(offer.Deadline, func(time.Time) { delete(s.moves, offer.ID) })
	}
	s.moves[offer.ID] = append(s.moves[offer.ID], w)
}

// Rescinded implements [framework.Rescinder]: a service that no longer needs to leave stays where it is.
func (s *Set) Rescinded(_ context.Context, offers []api.OfferID, _ string) {
	s.runWork(func(time.Time) {
		for _, id := range offers {
			for _, w := range s.state.moves[id] {
				if !w.gone {
					s.state.waiting.dropWish(w)
				}
			}
			delete(s.state.moves, id)
		}
	})
}

// endMove ends the service's old task, once the new one runs elsewhere.
func (s *state) endMove(a *attempt) {
	if !a.IsCopy() || !a.item.Service || a.item.trial != nil {
		return
	}
	s.keepOnly(a)
}
