package run

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

// Of a hundred thousand instances only those that run are kept, and no answer launches more than some of them.
func TestManyInstancesTakeTheMemoryOfThoseThatRun(t *testing.T) {
	const instances = 100_000
	s := tell(instances, nil)
	s.job.follow = func(a *attempt) { s.job.mu.Unlock(); s.followedToItsEnd(a); s.job.mu.Lock() }
	for launched := 0; launched < instances; {
		ids := s.offer(2000)
		if len(ids) == 0 || len(ids) > answerTasksMax {
			t.Fatalf("%d tasks in one answer after %d", len(ids), launched)
		}
		for _, id := range ids {
			s.update(t, id, api.TaskRunning)
			s.update(t, id, api.TaskFinished, 0)
		}
		launched += len(ids)
		if len(s.live)+len(s.again) > 0 {
			t.Fatalf("%d are kept that have ended", len(s.live)+len(s.again))
		}
	}
	if !s.allOver() || s.code() != 0 {
		t.Errorf("over %v, code %d", s.allOver(), s.code())
	}
}

// Of many tasks an agent is given as many as it starts in a moment, however many it has room for. The others go to other
// agents, or to the same one when that moment is over, or a task of the run has ended there.
func TestManyTasksGoToAllAgents(t *testing.T) {
	s := tell(answerTasksMax+1, nil)
	for _, want := range []struct {
		agent  api.AgentID
		tasks  int
		filter time.Duration
	}{{"agent-1", answerTasksMax, restMin}, {"agent-2", 1, 0}} {
		answer := s.Offers(t.Context(), []api.Offer{{ID: "offer-1-1", Agent: want.agent, Role: api.DefaultRole, Resources: api.Scalars(1000, 1_000_000)}})[0]
		if tasks := len(answer.Operations[0].Tasks); tasks != want.tasks || answer.Filter.For() != want.filter {
			t.Errorf("%s is given %d tasks, and declined for %v", want.agent, tasks, answer.Filter.For())
		}
	}
}

// Tasks whose output is not copied yet make the others wait, because their agent does not keep their folders for ever.
func TestARunDoesNotGetFarAheadOfItsOutput(t *testing.T) {
	s := tell(10*behindMax, nil)
	var followed []*attempt
	s.job.follow = func(a *attempt) { followed = append(followed, a) }
	ended := 0
	for ids := s.offer(answerTasksMax); len(ids) > 0; ids = s.offer(answerTasksMax) {
		for _, id := range ids {
			s.update(t, id, api.TaskFinished, 0)
		}
		ended += len(ids)
	}
	if ended <= behindMax || ended > behindMax+answerTasksMax {
		t.Errorf("%d have ended and nobody has read what they wrote", ended)
	}
	for _, a := range followed {
		s.followedToItsEnd(a)
	}
	if len(s.offer(answerTasksMax)) == 0 {
		t.Error("it does not go on when all output is here")
	}
}
