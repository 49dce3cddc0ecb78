package sim

import (
	"fmt"
	"time"

	agentcore "github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	sdk "github.com/tenderhq/tender/framework/internal/core"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/core/settings"
	"github.com/tenderhq/tender/master/registry"
)

// habits are what some users' schedulers do beside launching and killing tasks, and what some of their tasks ask for.
type habits struct {
	longest  time.Duration            // some tasks may run for at most so long; 0: none is limited
	thrifty  bool                     // it takes revocable resources
	secret   bool                     // some tasks name a secret of its role
	operated int                      // number of operations that were named
	outcomes map[api.OperationID]bool // what was told of them: whether they succeeded
	slow     bool                     // it handles some statuses only later
}

// said is what a scheduler has said of itself in this life of its process.
type said struct {
	hushed  quieting // when it was suppressed; zero: it is not
	asks    uint64   // number of changes that were asked for
	changes uint64   // number of changes that have come into effect
}

// quieting is when a framework was suppressed, and in which of its sessions.
type quieting struct {
	since   time.Time
	session uint64
}

// drawHabits draws the habits of a framework whose roles are known.
func (k *work) drawHabits() {
	r := k.world.random
	k.habits.thrifty, k.habits.slow = r.IntN(3) == 0, r.IntN(4) == 0
	if r.IntN(4) == 0 {
		k.habits.longest = k.world.drawBetween(time.Second, 10*time.Second)
	}
	k.habits.outcomes = map[api.OperationID]bool{}
	k.habits.secret = r.IntN(2) == 0 && len(k.world.quorum.config.ReceiptKey) > 0
}

// dressTask gives the task what it asks for by habit.
func (k *work) dressTask(task *api.Task, offer api.Offer) {
	r := k.world.random
	if k.habits.longest > 0 && r.IntN(3) == 0 {
		task.MaxCompletionTime = k.habits.longest
	}
	if k.habits.secret {
		task.Secrets = []api.Secret{{ID: secretOf(k.name), Env: "KEY"}}
		if r.IntN(2) == 0 {
			task.Secrets[0] = api.Secret{ID: secretOf(k.name), File: "key"}
		}
	}
	if offer.Resources.HasRevocable() && r.IntN(2) == 0 {
		task.Resources = task.Resources.AsRevocable()
	}
}

// secretOf is the one secret of a framework's first role.
func secretOf(name string) api.SecretID { return api.SecretID("role-" + name + "/key") }

// setSecret sets the secret of the framework; hideSecret removes it.
func (s *scheduler) setSecret() {
	s.world.askLeader(core.Set{Setting: settings.Secret{ID: secretOf(s.work.name), Sealed: []byte("sealed")}})
}

func (s *scheduler) hideSecret() {
	s.world.askLeader(core.Set{Setting: settings.NoSecret{ID: secretOf(s.work.name)}})
}

// takesSecrets notes which tasks an agent was given the secrets of.
func (d *daemon) takesSecrets(event protocol.AgentEvent) {
	if e, is := event.(protocol.TaskSecrets); is && e.Why == "" {
		d.secrets[e.TaskRef] = true
	}
}

// handsOver checks that a task that names secrets is handed to its executor only when its agent has them (R48), and one
// that names files only when those of this very launch are there.
func (t *truth) handsOver(d *daemon, of agentcore.TaskLaunch, task api.Task) {
	if len(task.Secrets) > 0 && !d.secrets[of.TaskRef] {
		t.world.breakStory("%s hands %s to its executor without the secrets that it names (R48)", d.machine.name, of.TaskRef)
	}
	if why, ended := d.machine.stored.prepared[of]; task.Command != nil && len(task.Command.URIs) > 0 && (!ended || why != api.ReasonNone) {
		t.world.breakStory("%s hands launch %v of %s to its executor without the files that it names", d.machine.name, of.Launch, of.TaskRef)
	}
}

// failsToFetch checks that a launch fails for its files only if its own could not be fetched, not those of a former
// launch of its ID (R9).
func (t *truth) failsToFetch(m *machine, status api.Status) {
	of := agentcore.TaskLaunch{TaskRef: status.Ref(), Launch: status.Launch}
	if status.Reason == api.ReasonFetchFailed && m.stored.prepared[of] != status.Reason {
		t.world.breakStory("%s tells that the files of launch %v of %s could not be fetched, and they could (R9)", m.name, of.Launch, of.TaskRef)
	}
}

// suppressOffers stops the offers for all roles of the framework; reviveOffers resumes them.
func (s *scheduler) suppressOffers() {
	if s.up {
		s.stepCore(sdk.SuppressAsked{})
		s.said.hushed = quieting{s.world.now, s.sessions}
	}
}

func (s *scheduler) reviveOffers() {
	s.said.hushed = quieting{}
	if s.up {
		s.stepCore(sdk.ReviveAsked{})
	}
}

// heardSuppressed checks that a framework that was suppressed in this session a while ago is offered nothing.
func (k *work) heardSuppressed(s *scheduler, offers []api.Offer) {
	if h := s.said.hushed; !h.since.IsZero() && h.session == s.sessions && k.world.now.Sub(h.since) > 10*time.Second {
		k.world.breakStory("%s was suppressed %v ago, and is offered %s", s.name, k.world.now.Sub(h.since), offers[0].ID)
	}
}

// changeFramework changes what the framework says of itself: where it wants to run, and how small an offer may be.
func (s *scheduler) changeFramework(constraint string) {
	if !s.up {
		return
	}
	wish := s.info
	wish.Constraint = constraint
	if s.world.random.IntN(2) == 0 {
		wish.MinOffer = api.Scalars(0.1, 16)
	}
	s.said.asks++
	s.stepCore(sdk.UpdateAsked{Request: s.said.asks, Wish: wish, Saw: s.said.changes})
}

// askedBack decides about inverse offers: it lets the masters take what they name, refuses, kills one of its tasks, or
// does nothing.
func (k *work) askedBack(s *scheduler, offers []api.InverseOffer) {
	for _, offer := range offers {
		s.planLater(k.world.drawPause(), func() {
			switch k.world.random.IntN(4) {
			case 0:
				s.stepCore(sdk.CallAsked{Call: protocol.AnswerInverse{Offers: []api.OfferID{offer.ID}, Accept: true}})
			case 1:
				s.stepCore(sdk.CallAsked{Call: protocol.AnswerInverse{Offers: []api.OfferID{offer.ID}}})
			case 2:
				k.killSomeTask(s)
			default:
			}
		})
	}
}

// handleLater handles a status after its call has returned, and acknowledges it then.
func (k *work) handleLater(s *scheduler, status api.Status) {
	s.planLater(k.world.drawBetween(0, time.Second), func() {
		k.handleStatus(s, status)
		s.stepCore(sdk.StatusAcknowledged{Status: status})
	})
}

// talkToExecutors sends a message to one of the framework's executors.
func (s *scheduler) talkToExecutors() {
	for _, m := range s.world.machines {
		for _, p := range m.listExecutors() {
			if p.run.Executor.Framework == s.info.ID && m.daemon != nil {
				s.stepCore(sdk.CallAsked{Call: protocol.MessageExecutor{Agent: m.daemon.core.Identity().Agent, Executor: p.run.Executor.Executor, Data: []byte("how are you?")}})
			}
		}
	}
}

// nameOperation gives half of the operations an ID, so that their outcomes are told.
func (k *work) nameOperation() api.OperationID {
	if k.world.random.IntN(2) == 0 {
		return ""
	}
	k.habits.operated++
	return api.OperationID(fmt.Sprintf("%s-op%d", k.name, k.habits.operated))
}

// operationDone checks that an operation is not told to have two outcomes. That a master no longer remembers is none.
func (k *work) operationDone(s *scheduler, done sdk.CallOperationDone) {
	if done.Err != nil && done.Err.Kind != api.Invalid && done.Err.Kind != api.Limit {
		return
	}
	before, told := k.habits.outcomes[done.Operation]
	if now := done.Err == nil; told && now != before {
		k.world.breakStory("operation %s of %s was told to have succeeded: %v, and now %v: %v", done.Operation, s.name, before, now, done.Err)
	}
	k.habits.outcomes[done.Operation] = done.Err == nil
}

// fillProcessors has any two tasks on the machine use all that it has, so that revocable tasks have to make room.
func (m *machine) fillProcessors() { m.load = m.whole.Scalar("cpus") / 2 }

func (m *machine) emptyProcessors() { m.load = 0 }

// writeStore writes into the framework's store: few keys, with values of several sizes, of which some are deleted.
func (s *scheduler) writeStore() {
	w := s.world
	if s.phase != active || w.findLeader() == nil {
		return
	}
	s.writes++
	key := fmt.Sprintf("key-%d", w.random.IntN(4))
	write := core.StoreWrite{Instance: s.instanceName(), Counter: s.writes}
	if w.random.IntN(4) > 0 {
		write.Change = registry.PutEntry{Framework: s.info.ID, Session: s.session, Key: key, Value: make([]byte, 1+w.random.IntN(300))}
		w.askLeader(core.StoreWrites{write})
		return
	}
	write.Change = registry.DeleteEntry{Framework: s.info.ID, Session: s.session, Key: key}
	w.findLeader().requestAction(core.StoreWrites{write}, func(r core.Reply) {
		if r.Err != nil && r.Err.Kind == api.Limit {
			w.breakStory("a key of %s can't be deleted, because the store is full (R58): %v", s.name, r.Err)
		}
	})
}

// checkStores checks that what frameworks have stored is never more than may be stored.
func (t *truth) checkStores(state *registry.State) {
	most := t.world.quorum.config.StoreBytesMax
	if most == 0 {
		return
	}
	if sum := storedBytes(state); sum > most {
		t.world.breakStory("the stores have %d bytes, and %d are allowed", sum, most)
	}
}

// storedBytes returns how many bytes all frameworks have stored.
func storedBytes(state *registry.State) (sum int64) {
	for _, framework := range state.Frameworks { // order: irrelevant because it is a sum
		for key, entry := range framework.Store { // order: irrelevant because it is a sum
			sum += int64(len(key) + len(entry.Value))
		}
	}
	return sum
}

// checkLongest checks that a task that may run for some seconds only does not run for much longer, if nothing has kept its
// agent from ending it (R43).
func (t *truth) checkLongest() {
	for _, label := range t.order {
		launched := t.launches[label]
		r := launched.alive
		if r == nil || !r.alive || r.task.MaxCompletionTime == 0 || r.began.IsZero() {
			continue
		}
		p := r.process
		watched := launched.machine.daemon != nil && launched.machine.daemon == r.watchedBy && p.line != nil && p.line.conn != 0
		if over := t.world.now.Sub(r.began) - r.task.MaxCompletionTime; watched && over > 80*time.Second {
			t.world.breakStory("launch %s runs on %s %v longer than it may (R43)", label, launched.machine.name, over)
		}
	}
}

// mayEndSo checks that only a revocable task is REVOKED, and that only one with a longest time has run for too long.
func (t *truth) mayEndSo(l *launch, status api.Status) {
	if l.alive == nil {
		return
	}
	task := l.alive.task
	if status.Reason == api.ReasonRevoked && !task.Resources.HasRevocable() {
		t.world.breakStory("launch %s is not revocable, and its framework is told REVOKED (R28)", l.label)
	}
	if status.Reason == api.ReasonMaxCompletionTime && task.MaxCompletionTime == 0 {
		t.world.breakStory("launch %s has no longest time, and its framework is told %s (R43)", l.label, status.Reason)
	}
}
