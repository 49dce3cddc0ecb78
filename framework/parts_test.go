package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// heavy is a task that is so large that only four fit into an accept.
func heavy(id string) api.Task {
	task := taskOf(id)
	task.Data = make([]byte, 220_000)
	return task
}

func heavies(n int) []api.Task {
	var tasks []api.Task
	for i := range n {
		tasks = append(tasks, heavy(fmt.Sprintf("t%d", i+1)))
	}
	return tasks
}

func idsOf(operations []api.Operation) string {
	var ids []string
	for _, operation := range operations {
		if operation.Kind != api.OpLaunch {
			ids = append(ids, operation.Kind.String())
		}
		for _, task := range operation.Tasks {
			ids = append(ids, string(task.ID))
		}
		if operation.ID != "" {
			ids = append(ids, "("+string(operation.ID)+")")
		}
	}
	return strings.Join(ids, " ")
}

// TestAnswerInParts: one answer with ten large tasks is sent as three accepts. The first names all offers. Each that
// follows names the first offer and the part before. The last one brings the answer's filter.
func TestAnswerInParts(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		s.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
			launch := api.Answer{Operations: []api.Operation{{Kind: api.OpLaunch, ID: "all", Tasks: heavies(10)}}, Filter: api.Filter{Refuse: time.Minute}}
			for _, offer := range offers {
				launch.Offers = append(launch.Offers, offer.ID)
			}
			return []api.Answer{launch}
		}
		r := n.run(s, nil)
		session := m.lead(1)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1"), offerOf("offer-1-2")}})
		var before uint64
		for i, want := range []string{"t1 t2 t3 t4", "t5 t6 t7 t8", "t9 t10 (all)"} {
			part, number := call[protocol.Accept](session)
			offers, filter := 1, time.Duration(0)
			if i == 0 {
				offers = 2
			}
			if i == 2 {
				filter = time.Minute
			}
			if got := idsOf(part.Operations); got != want || len(part.Offers) != offers || part.Offers[0] != "offer-1-1" {
				t.Errorf("part %d launches %s with %v", i, got, part.Offers)
			}
			if part.More != (i < 2) || part.After != before || part.Filter.Refuse != filter {
				t.Errorf("part %d: more %v, after %d (the part before was call %d), filter %v", i, part.More, part.After, before, part.Filter)
			}
			before = number
		}
		session.quiet(time.Second)
		r.end()
	})
}

// TestRefusedPart: the tasks of a part that a master refuses are told DROPPED, and those of
// the other parts are not (R3).
func TestRefusedPart(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		s.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
			return []api.Answer{api.Launch(offers[0], heavies(5)...)}
		}
		r := n.run(s, nil)
		session := m.lead(1)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		call[protocol.Accept](session)
		_, second := call[protocol.Accept](session)
		session.send(protocol.Refused{Number: second, Err: api.E("offer.accept", api.Stale, "offer-1-1", errors.New("gone"))})
		if got := next(t, s.updates); got.Task != "t5" || got.State != api.TaskDropped || got.Reason != api.ReasonInvalidOffers {
			t.Errorf("update %+v", got)
		}
		call[protocol.Decline](session)
		session.close(errors.New("restart"))
		session = m.lead(2)
		if got := len(session.asked()); got != 4 {
			t.Errorf("asks for %d tasks, want the 4 of the first part", got)
		}
		r.end()
	})
}

// TestAnswerWithReservationTooLarge: an answer that must wait for the quorum can't be sent in parts. As much as fits is
// sent, without a filter, and the other tasks are told DROPPED so that the user tries them again.
func TestAnswerWithReservationTooLarge(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		s.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
			answer := api.Launch(offers[0], heavies(6)...)
			answer.Operations = append([]api.Operation{{Kind: api.OpReserve, ID: "mine", Resources: api.Scalars(1, 1)}}, answer.Operations...)
			return []api.Answer{answer}
		}
		r := n.run(s, nil)
		session := m.lead(1)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		accept, _ := call[protocol.Accept](session)
		if got := idsOf(accept.Operations); got != "reserve (mine) t1 t2 t3 t4" || accept.More || accept.Filter.For() > 0 {
			t.Errorf("accept of %s, more %v, filter %v", got, accept.More, accept.Filter)
		}
		for _, want := range []api.TaskID{"t5", "t6"} {
			if got := next(t, s.updates); got.Task != want || got.State != api.TaskDropped || !strings.Contains(got.Message, "larger than a message") {
				t.Errorf("update %+v", got)
			}
		}
		session.quiet(time.Second)
		r.end()
	})
}

// TestTaskLargerThanAMessage: such a task ends ERROR, because no accept can launch it. The other tasks of its answer
// start.
func TestTaskLargerThanAMessage(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		s.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
			large := taskOf("large")
			large.Data = make([]byte, api.MessageBytesMax)
			return []api.Answer{api.Launch(offers[0], taskOf("t1"), large, taskOf("t2"))}
		}
		r := n.run(s, nil)
		session := m.lead(1)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		if accept, _ := call[protocol.Accept](session); idsOf(accept.Operations) != "t1 t2" || accept.More {
			t.Errorf("accept of %s, more %v", idsOf(accept.Operations), accept.More)
		}
		if got := next(t, s.updates); got.Task != "large" || got.State != api.TaskError || got.Reason != api.ReasonTaskInvalid {
			t.Errorf("update %+v", got)
		}
		r.end()
	})
}

// TestTaskThatCanNeverRun: a task that masters or agents would refuse ends ERROR at once, and is not sent.
func TestTaskThatCanNeverRun(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		s.offers = func(_ context.Context, offers []api.Offer) []api.Answer {
			both, none := taskOf("both"), taskOf("none")
			both.Command = &api.Command{Shell: "true", Argv: []string{"true"}}
			none.Resources = api.Resources{}
			return []api.Answer{api.Launch(offers[0], both, taskOf("t1"), none)}
		}
		r := n.run(s, nil)
		session := m.lead(1)
		session.send(protocol.Offers{Offers: []api.Offer{offerOf("offer-1-1")}})
		if accept, _ := call[protocol.Accept](session); idsOf(accept.Operations) != "t1" {
			t.Errorf("accept of %s", idsOf(accept.Operations))
		}
		for _, want := range []api.TaskID{"both", "none"} {
			if got := next(t, s.updates); got.Task != want || got.State != api.TaskError || got.Reason != api.ReasonTaskInvalid {
				t.Errorf("update %+v", got)
			}
		}
		r.end()
	})
}
