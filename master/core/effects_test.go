package core_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
)

// perform does what the core wants and says it in plain words.
func (w *world) perform(effects []core.Effect) {
	for _, effect := range effects {
		if w.onEffect != nil {
			w.onEffect(effect)
		}
		switch effect := effect.(type) {
		case core.ToScheduler:
			w.toScheduler(effect)
		case core.CloseScheduler:
			if f := w.frameworkOn(effect.Conn); f != nil {
				w.say("%s is closed: %s", f.name, plain(effect.Err))
				f.hangUp()
			} else {
				w.say("stream %d is closed: %s", effect.Conn, plain(effect.Err))
			}
		case core.ToAgent:
			w.toAgent(effect)
		case core.SendSecrets:
			w.sendSecrets(effect)
		case core.CloseAgent:
			if a := w.agentOn(effect.Conn); a != nil {
				w.say("%s is closed: %s", a.name, plain(effect.Err))
				a.conn = 0
			} else {
				w.say("stream %d is closed: %s", effect.Conn, plain(effect.Err))
			}
		case core.Propose:
			w.proposed = append(w.proposed, effect.Command)
			if w.stopped {
				w.say("proposed: %s", changeWords(effect.Command.Change))
			}
		case core.Served: // depends on the real time of arrival, and no story has one
		case core.Reply:
			w.say("reply %d: %s", effect.ID, replyWords(effect))
		case core.Log:
			mark := "."
			if effect.Warn {
				mark = "!"
			}
			w.say("  %s %s%s", mark, effect.Message, fieldWords(effect.Fields))
		}
	}
}

func plain(err *api.Error) string {
	if err == nil {
		return "well"
	}
	return err.Error()
}

func fieldWords(fields []core.Field) string {
	var words strings.Builder
	for _, field := range fields {
		value := field.Value
		if strings.ContainsAny(value, " ") {
			value = fmt.Sprintf("%q", value)
		}
		fmt.Fprintf(&words, " %s=%s", field.Name, value)
	}
	return words.String()
}

func changeWords(change registry.Change) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", change), "registry.")
	switch change := change.(type) {
	case registry.AdmitAgent:
		return name + " " + change.Agent.Hostname
	case registry.Subscribe:
		return name + " " + change.Framework.Name
	case registry.RemoveFramework:
		return fmt.Sprintf("%s %s seen in session %d", name, change.ID, change.Session)
	case registry.MarkAgent:
		return fmt.Sprintf("%s %s %v", name, change.ID, change.Set.Strings())
	default:
		return name
	}
}

func replyWords(reply core.Reply) string {
	if reply.Err != nil {
		return reply.Err.Error()
	}
	switch answer := reply.Answer.(type) {
	case core.KillTaskAnswer:
		switch {
		case answer.Pending:
			return fmt.Sprintf("kill of %s is pending", answer.Task)
		case answer.Already != 0:
			return fmt.Sprintf("%s is %s already", answer.Task, answer.Already)
		}
		return fmt.Sprintf("kill of %s is taken", answer.Task)
	case registry.Result:
		return fmt.Sprintf("done, version %d", answer.Version)
	}
	return fmt.Sprint(reply.Answer)
}

func (w *world) toScheduler(effect core.ToScheduler) {
	f := w.frameworkOn(effect.Conn)
	if f == nil {
		w.say("LOST stream %d: %T", effect.Conn, effect.Event)
		return
	}
	switch event := effect.Event.(type) {
	case protocol.MasterHeartbeat:
	case protocol.Subscribed:
		f.info.ID = event.Framework
		w.alias(string(event.Framework), f.name)
		w.say("%s: subscribed, session %d", f.name, event.Session)
	case protocol.Waiting:
		w.say("%s: waits for %s", f.name, event.ActiveInstance)
	case protocol.Offers:
		for _, offer := range event.Offers {
			f.offers[offer.ID] = offer
			w.say("%s: %s of %s in %s: %v%s%s", f.name, offer.ID, offer.Agent, offer.Role, offer.Resources, withExecutors(offer), w.withWindow(offer))
		}
	case protocol.Rescind:
		for _, id := range event.Offers {
			delete(f.offers, id)
		}
		w.say("%s: rescinded %v: %s", f.name, event.Offers, event.Why)
	case protocol.Update:
		w.update(f, event.Status)
	case protocol.Refused:
		w.say("%s: refused: %v", f.name, event.Err)
		for _, operation := range f.accepts[event.Number] {
			for _, task := range operation.Tasks {
				delete(f.tasks, task.ID)
			}
		}
	case protocol.OperationResult:
		w.say("%s: operation %s on %s: %s", f.name, event.ID, event.Agent, plain(event.Err))
	case protocol.InverseOffers:
		for _, x := range event.Offers {
			w.say("%s: %s asks for %v of %s (%v) within %v", f.name, x.ID, x.Resources, x.Agent, x.Tasks, x.Deadline.Sub(w.now))
		}
	case protocol.RescindInverse:
		w.say("%s: withdrawn %v: %s", f.name, event.Offers, event.Why)
	case protocol.MessageFramework:
		w.say("%s: message from %s on %s: %s", f.name, event.Executor, event.Agent, event.Data)
	case protocol.ExecutorLost:
		w.say("%s: executor %s on %s is lost: %s", f.name, event.Executor, event.Agent, event.Message)
	case protocol.AgentLost:
		w.say("%s: agent %s is %s: %s", f.name, event.Agent, map[bool]string{true: "gone", false: "lost"}[event.Gone], event.Why)
	case protocol.FrameworkUpdated:
		w.say("%s: updated", f.name)
	case protocol.Settled:
		w.say("%s: settled", f.name)
	default:
		w.say("%s: %T", f.name, event)
	}
}

func withExecutors(offer api.Offer) string {
	if len(offer.Executors) == 0 {
		return ""
	}
	return fmt.Sprintf(" with executors %v", offer.Executors)
}

func (w *world) update(f *fakeFramework, status api.Status) {
	number := ""
	if status.Number > 0 {
		number = fmt.Sprintf(" #%d", status.Number)
	}
	if status.Previous > 0 {
		number += fmt.Sprintf(" after #%d", status.Previous)
	}
	line := fmt.Sprintf("%s: %s is %s%s on %s", f.name, status.Task, status.State, number, status.Agent)
	if status.Reason != 0 {
		line += " (" + status.Reason.String() + ")"
	}
	if status.Message != "" {
		line += ": " + status.Message
	}
	if len(status.Ports)+len(status.Labels) > 0 {
		line += fmt.Sprintf(", to be reached at %s in zone %q, ports %v, labels %v", status.Hostname, status.Zone, status.Ports, status.Labels)
	}
	w.say("%s", line)
	known := f.tasks[status.Task]
	if status.State.Terminal() {
		delete(f.tasks, status.Task)
		return
	}
	f.tasks[status.Task] = protocol.UnsettledTask{Task: status.Task, Agent: status.Agent, Number: max(known.Number, status.Number), State: status.State}
}

func (w *world) toAgent(effect core.ToAgent) {
	a := w.agentOn(effect.Conn)
	if a == nil {
		w.say("LOST stream %d: %T", effect.Conn, effect.Event)
		return
	}
	switch event := effect.Event.(type) {
	case protocol.AgentPong:
	case protocol.TaskSecrets:
		w.say("%s <- no secrets of %s: %s", a.name, event.TaskRef, event.Why)
	case protocol.PrincipalChanged:
		if event.Views {
			w.say("%s <- %s may look at the cluster", a.name, event.Principal)
		}
		over := "tickets"
		if event.Revoked {
			over = "certificates and tickets"
		}
		if event.Until.IsZero() {
			return
		}
		w.say("%s <- %s of %s are over that were signed until %s", a.name, over, event.Principal, event.Until.UTC().Format(time.RFC3339))
	case protocol.AgentRegistered:
		a.info.ID, a.session, a.term = event.Agent, effect.Session, w.term
		w.alias(string(event.Agent), a.name)
		w.say("%s <- registered, session %d", a.name, effect.Session)
	case protocol.Reported:
		a.reported = true
	case protocol.LaunchTask:
		w.taken(a, event)
	case protocol.LaunchGroup:
		w.say("%s <- a group of %d:", a.name, len(event.Tasks))
		for _, launch := range event.Tasks {
			w.taken(a, launch)
		}
	case protocol.KillTask:
		if t := a.tasks[event.TaskRef]; t != nil {
			t.kill = true
		}
		w.say("%s <- kill %s (%s)%s", a.name, event.TaskRef, event.Reason, graceWords(event))
	case protocol.AcknowledgeStatus:
		if t := a.tasks[event.TaskRef]; t != nil && t.Ended && event.Number >= t.Status.Number {
			a.settled[event.TaskRef] = t
			delete(a.tasks, event.TaskRef)
		}
		w.say("%s <- acknowledged %s #%d", a.name, event.TaskRef, event.Number)
	case protocol.SendAgain:
		w.say("%s <- send the statuses of %s again", a.name, event.TaskRef)
	case protocol.ShutdownAgentExecutor:
		w.say("%s <- shutdown %s", a.name, event.ExecutorRef)
	case protocol.MessageToExecutor:
		w.say("%s <- message to %s: %s", a.name, event.ExecutorRef, event.Data)
	case protocol.RemoveFramework:
		delete(a.copies, event.Framework)
		w.say("%s <- remove framework %s", a.name, event.Framework)
	case protocol.Drain:
		if event.On {
			w.say("%s <- drain", a.name)
		} else if !w.quietDrain(a) {
			w.say("%s <- drain no more", a.name)
		}
	case protocol.CreateVolume:
		a.told[event.Volume.Volume] = event.Volume.Generation
		w.say("%s <- create volume %v, generation %d", a.name, event.Volume.Resource.Label, event.Volume.Generation)
	case protocol.DestroyVolume:
		w.say("%s <- destroy volume %s, generation %d", a.name, event.Volume, event.Generation)
	case protocol.AgentGone:
		a.gone = true
		w.say("%s <- gone: %s", a.name, event.Why)
	default:
		w.say("%s <- %T %v", a.name, event, event)
	}
}

// quietDrain leaves out what every agent is told once it has reported.
func (w *world) quietDrain(a *fakeAgent) bool { return !a.reported || true }

func graceWords(event protocol.KillTask) string {
	if event.Grace == 0 {
		return ""
	}
	return " within " + event.Grace.String()
}

// taken is what an agent does with a launch: from now on it has it on disk.
func (w *world) taken(a *fakeAgent, launch protocol.LaunchTask) {
	ref := api.TaskRef{Framework: launch.Framework.ID, Task: launch.Task.ID}
	w.say("%s <- launch %s with %v%s", a.name, ref, launch.Resources, executorWords(launch))
	if a.silent {
		return
	}
	a.tasks[ref] = &fakeTask{ReportedTask: protocol.ReportedTask{
		Task: launch.Task, Framework: ref.Framework, Role: launch.Role, Resources: launch.Resources,
		Status: api.Status{Framework: ref.Framework, Task: ref.Task, Agent: a.info.ID, State: api.TaskStaging,
			Launch: api.LaunchID{Term: w.term, Number: launch.Number}},
		LaunchedAt: w.now,
	}}
	if !a.keepsNone {
		a.tasks[ref].Receipt = launch.Receipt
	} else {
		launch.ExecutorReceipt = ""
	}
	a.copies[ref.Framework] = launch.Framework
	executor := api.ExecutorRef{Framework: ref.Framework, Executor: launch.Task.ExecutorID()}
	if _, runs := a.executors[executor]; !runs {
		info := api.Executor{ID: api.CommandExecutor}
		if launch.Task.Executor != nil {
			info = *launch.Task.Executor
		}
		a.executors[executor] = protocol.ReportedExecutor{Executor: info, Framework: ref.Framework, Role: launch.Role, Resources: launch.ExecutorResources,
			LaunchTerm: w.term, LaunchNumber: launch.Number, Receipt: launch.ExecutorReceipt}
	}
	if f := w.frameworkNamed(ref.Framework); f != nil {
		f.tasks[ref.Task] = protocol.UnsettledTask{Task: ref.Task, Agent: a.info.ID, State: api.TaskStaging}
	}
}

func (w *world) frameworkNamed(id api.FrameworkID) *fakeFramework {
	for _, f := range w.frameworks {
		if f.info.ID == id {
			return f
		}
	}
	return nil
}

func executorWords(launch protocol.LaunchTask) string {
	if launch.ExecutorResources.IsZero() {
		return ""
	}
	return fmt.Sprintf(" and executor %s with %v", launch.Task.ExecutorID(), launch.ExecutorResources)
}

func (w *world) alias(id, name string) { w.aliases[id] = name }

// withWindow says when the agent will be away.
func (w *world) withWindow(offer api.Offer) string {
	if offer.Unavailable == nil {
		return ""
	}
	return fmt.Sprintf(" away in %v for %v", offer.Unavailable.Start.Sub(w.now), offer.Unavailable.Duration)
}
