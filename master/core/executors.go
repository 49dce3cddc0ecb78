package core

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/accounting"
)

// executors keeps the executors that run on agents, and those that a launch will start. It books their resources, and
// passes messages between them and their schedulers.
type executors struct {
	*base
	standing   *standing
	offers     *offers
	frameworks *frameworks
}

// executor runs on an agent, or will be started there by a launch. It holds its resources from its first launch until
// the agent says that it has ended.
type executor struct {
	ref       api.ExecutorRef
	info      api.Executor
	framework *framework
	agent     *agent
	role      api.Role
	resources api.Resources
	account   *accounting.Account
	starter   *task // the task whose launch starts it; nil once an agent has reported it
}

func (x *executor) claim() allocator.Claim {
	return allocator.Claim{Framework: x.ref.Framework, Role: x.role, Agent: x.agent.id, Resources: x.resources,
		Executor: x.ref.Executor}
}

// addExecutor adds an executor. The caller books its resources on the agent.
func (r *executors) addExecutor(x *executor) {
	x.agent.executors[x.ref] = x
	x.framework.executors[executorKey{x.agent.id, x.ref.Executor}] = x
	x.framework.hold(x.role, x.resources)
	x.account = r.accountOf(x.framework.id, &x.framework.info, x.role, "")
	r.accounts.Hold(x.account, x.resources, r.now)
}

// dropExecutor removes an executor and gives its resources back.
func (r *executors) dropExecutor(x *executor) {
	r.noteExecutor(x, change.Ended, "")
	delete(x.agent.executors, x.ref)
	delete(x.framework.executors, executorKey{x.agent.id, x.ref.Executor})
	x.agent.Unuse(x.resources)
	x.framework.release(x.role, x.resources)
	r.accounts.Release(x.account, x.resources, r.now)
	if !x.resources.IsZero() {
		r.offers.giveBack(x.claim())
	}
	r.frameworks.forgetRemoved(x.framework)
}

// executorEnded removes an executor whose processes have ended. The statuses of its tasks come separately. The executor
// stays if the agent starts it again, or if a launch that is on its way to the agent will start it again.
func (r *executors) executorEnded(a *agent, ended protocol.ExecutorEnded) {
	x := a.executors[ended.ExecutorRef]
	if x == nil || !a.phase.Reported() {
		return
	}
	if !ended.Again {
		if x.starter = r.starterOf(x, ended.NextLaunch); x.starter == nil {
			r.dropExecutor(x)
		}
	}
	r.executorLost(x, ended.Message)
	r.standing.restate(a)
}

// executorLost tells the framework that an executor's processes are gone.
func (r *executors) executorLost(x *executor, message string) {
	r.noteExecutor(x, change.Lost, message)
	if r.config.Debug {
		r.debug("executor ended", field("executor", x.ref.String()), field("agent", x.agent.id), field("why", message))
	}
	r.tell(x.framework, protocol.ExecutorLost{Agent: x.agent.id, Executor: x.ref.Executor, Message: message})
}

// neverStarted is called when the agent has refused the launch that was to start an executor. Later launches assumed
// that the executor runs. If the executor asks for resources, the agent refuses those launches too; otherwise the next
// launch that the agent accepts starts it.
func (r *executors) neverStarted(t *task) {
	x := t.agent.executors[api.ExecutorRef{Framework: t.ref.Framework, Executor: t.task.ExecutorID()}]
	if x == nil || x.starter != t {
		return
	}
	if x.starter = r.starterOf(x, t.launch.Number+1); x.starter == nil {
		r.dropExecutor(x)
	}
}

// starterOf returns the first launch of this term, from number from on, that will start the executor; nil if there is
// none. An executor that asks for resources is started only by the launch that brings them. If from is 0 the number is
// unknown, and the result is nil.
func (r *executors) starterOf(x *executor, from uint64) *task {
	if from == 0 || !x.resources.IsZero() {
		return nil
	}
	var first *task
	for _, t := range x.agent.tasks { // order: irrelevant because launches are numbered
		if !t.held || t.launch.Term != r.term || t.launch.Number < from || t.framework != x.framework || t.task.ExecutorID() != x.ref.Executor {
			continue
		}
		if first == nil || t.launch.Compare(first.launch) < 0 {
			first = t
		}
	}
	return first
}

// clearExecutors removes all executors of an agent that is taken for dead, marked gone or removed.
func (r *executors) clearExecutors(a *agent) {
	for _, x := range sortedExecutors(a) {
		r.dropExecutor(x)
	}
}

func sortedExecutors(a *agent) []*executor {
	return slices.SortedFunc(maps.Values(a.executors), func(x, y *executor) int {
		return cmp.Or(cmp.Compare(x.ref.Framework, y.ref.Framework), cmp.Compare(x.ref.Executor, y.ref.Executor))
	})
}

// takeExecutors brings the known executors of the agent in line with its report.
func (r *executors) takeExecutors(a *agent, got *report) {
	reported := make(map[api.ExecutorRef]bool, len(got.executors))
	for _, rx := range got.executors {
		ref := api.ExecutorRef{Framework: rx.Framework, Executor: rx.Executor.ID}
		if reported[ref] || rx.Resources.Check() != nil || api.CheckID("executor", string(ref.Executor)) != nil {
			r.info("reported executor dropped", field("executor", ref.String()), field("agent", a.id))
			continue
		}
		reported[ref] = true
		if x := a.executors[ref]; x != nil {
			x.starter = nil
		} else {
			r.countExecutorUnheard(r.adoptExecutor(a, ref, rx), rx, got)
		}
	}
	for _, x := range sortedExecutors(a) {
		if !reported[x.ref] {
			r.dropExecutor(x)
			r.executorLost(x, "agent "+string(a.id)+" is back without it")
		}
	}
}

func (r *executors) adoptExecutor(a *agent, ref api.ExecutorRef, rx protocol.ReportedExecutor) *executor {
	fw := r.frameworkByID[rx.Framework]
	if fw == nil {
		fw = r.frameworks.tombstoneOf(rx.Framework)
	}
	x := &executor{ref: ref, info: rx.Executor, framework: fw, agent: a, role: rx.Role, resources: rx.Resources}
	a.Take(rx.Resources)
	r.addExecutor(x)
	r.noteExecutor(x, change.Reported, "")
	if !rx.Resources.IsZero() {
		r.policy.Take(x.claim())
	}
	return x
}

// messageDataMax bounds the bytes of a message between a scheduler and an executor. With its addresses the message must
// fit in a protocol message of either side (R4).
const messageDataMax = api.MessageBytesMax - 4096

// messageFromExecutor passes a message of an executor to its scheduler, at most once.
func (r *executors) messageFromExecutor(a *agent, message protocol.MessageFromExecutor) {
	if a.executors[message.ExecutorRef] == nil {
		r.refuseVoice(a, "a message of executor "+message.ExecutorRef.String())
		return
	}
	if fw := r.frameworkByID[message.Framework]; fw != nil {
		r.tell(fw, protocol.MessageFramework{Agent: a.id, Executor: message.Executor, Data: message.Data})
	}
}

// messageExecutor passes a message of a scheduler to an executor, at most once.
func (r *executors) messageExecutor(s *session, number uint64, message protocol.MessageExecutor) {
	const op = "executor.message"
	if size := len(message.Data); size > messageDataMax {
		r.refuse(s, number, api.E(op, api.Limit, message.Executor, fmt.Errorf("%d bytes, at most %d fit a message", size, messageDataMax)))
		return
	}
	x := r.executorOf(s, number, op, message.Agent, message.Executor)
	if x != nil {
		r.tellAgent(x.agent, protocol.MessageToExecutor{ExecutorRef: x.ref, Data: message.Data})
	}
}

// shutdownExecutor tells the agent to end an executor and its tasks.
func (r *executors) shutdownExecutor(s *session, number uint64, call protocol.ShutdownExecutor) {
	x := r.executorOf(s, number, "executor.shutdown", call.Agent, call.Executor)
	if x != nil {
		r.info("executor shutdown", field("executor", x.ref.String()), field("agent", x.agent.id))
		r.tellAgent(x.agent, protocol.ShutdownAgentExecutor{ExecutorRef: x.ref})
	}
}

// executorOf finds an executor on an agent that is alive; otherwise it refuses the call.
func (r *executors) executorOf(s *session, number uint64, op string, agentID api.AgentID, id api.ExecutorID) *executor {
	x, a := s.framework.executors[executorKey{agentID, id}], r.agentByID[agentID]
	switch {
	case a != nil && !a.phase.Alive() && !r.marks(a).Has(api.MarkGone): // it may have the executor, whatever is known of it (R75)
		r.refuse(s, number, api.E(op, api.Unavailable, id, errors.New("agent "+string(agentID)+" is "+a.state.String()+": "+a.why)))
		return nil
	case x == nil:
		r.refuse(s, number, api.E(op, api.NotFound, id, errors.New("no such executor runs on agent "+string(agentID))))
	}
	return x
}
