package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// show writes an effect as one line.
func (w *world) show(effect Effect) string {
	switch e := effect.(type) {
	case Checkpoint:
		if w.quiet {
			return ""
		}
		return fmt.Sprintf("write %d %s", e.Number, showRecord(e.Record))
	case ToLeader:
		return fmt.Sprintf("leader %d < %s", e.Conn, showCall(e.Call))
	case CloseLeader:
		return fmt.Sprintf("leader %d closed: %s", e.Conn, e.Why)
	case ToExecutor:
		return fmt.Sprintf("executor %d < %s", e.Conn, showExecutorEvent(e.Event))
	case HandOver:
		text := fmt.Sprintf("executor %d < launch %s in %s", e.Conn, e.Task, e.Launch.Sandbox)
		if e.Launch.Shared != "" {
			text += ", shared " + e.Launch.Shared
		}
		for _, gpu := range e.Launch.GPUs {
			text += fmt.Sprintf(", gpu %d (%s)", gpu.Index, gpu.ID)
		}
		return text
	case CloseExecutor:
		if e.Err == nil {
			return fmt.Sprintf("executor %d closed", e.Conn)
		}
		return fmt.Sprintf("executor %d closed: %v", e.Conn, e.Err)
	case StartExecutor:
		return fmt.Sprintf("start %s in %s", showRun(e.Run), e.Sandbox)
	case ReleaseExecutor:
		return "release " + showRun(e.Run)
	case AbandonExecutor:
		return "abandon " + showRun(e.Run)
	case KillGroups:
		return fmt.Sprintf("kill all of %s: leader %d", showRun(e.Run), e.Leader.PID)
	case KillGroup:
		return fmt.Sprintf("kill group %d of %s", e.Group.PID, e.Task)
	case PrepareTask:
		var want []string
		if e.Image != "" {
			want = append(want, "image "+e.Image)
		}
		for _, uri := range e.URIs {
			want = append(want, uri.Source)
		}
		for _, id := range e.Volumes {
			want = append(want, "volume "+string(id))
		}
		for _, secret := range e.Secrets {
			want = append(want, "secret "+string(secret.ID)+" as "+secret.File)
		}
		for name, port := range e.Ports { // at most one
			want = append(want, fmt.Sprintf("port %s %d", name, port))
		}
		return fmt.Sprintf("fetch %s for %s", strings.Join(want, ", "), e.Task)
	case Sample:
		if w.core.leader.registered { // with every heartbeat
			return ""
		}
		return fmt.Sprintf("sample %d executors", len(e.Targets))
	case TaskEnded:
		var hidden []string
		if e.Sandbox != "" {
			hidden = append(hidden, "hide the secrets in "+e.Sandbox)
		}
		for _, id := range e.Volumes {
			hidden = append(hidden, fmt.Sprintf("hide volume %s from %s", id, e.Executor))
		}
		return strings.Join(hidden, ", ")
	case DropSecrets:
		return "drop the secrets of " + e.Task.String()
	case RemoveFolder:
		if e.Free {
			return "remove " + e.Path + ", which nobody has open"
		}
		return "remove " + e.Path
	case CreateVolume:
		if e.New {
			return "create new volume " + string(e.Volume)
		}
		return "create volume " + string(e.Volume)
	case DestroyVolume:
		return "destroy volume " + string(e.Volume)
	case Forget:
		return "forget: " + e.Why
	case Stop:
		return "stop: " + e.Err.Error()
	case Log:
		var words []string
		for _, f := range e.Fields {
			words = append(words, f.Name+"="+strconv.Quote(f.Value))
		}
		return strings.TrimSpace("# " + e.Message + " " + strings.Join(words, " "))
	}
	return fmt.Sprintf("%T", effect)
}

func showRun(run Run) string { return fmt.Sprintf("%s#%d", run.Executor, run.Number) }

func showStatus(s api.Status) string {
	text := fmt.Sprintf("%s number %d %s", s.Ref(), s.Number, s.State)
	if s.Previous > 0 {
		text += fmt.Sprintf(" after %d", s.Previous)
	}
	if s.Reason != api.ReasonNone {
		text += " " + s.Reason.String()
	}
	if s.ExitCode != nil {
		text += fmt.Sprintf(" exit %d", *s.ExitCode)
	}
	if s.Image != "" {
		text += " in " + s.Image
	}
	if len(s.GPUs) > 0 {
		text += fmt.Sprintf(" gpus %v", s.GPUs)
	}
	if s.Message != "" {
		text += ": " + s.Message
	}
	return text
}

func showRecord(record Record) string {
	switch r := record.(type) {
	case Identity:
		return fmt.Sprintf("identity %s cluster=%s agent=%s term=%s boot=%s", r.Nonce, r.Cluster, r.Agent, r.Term, r.BootID)
	case TaskStatus:
		return "status " + showStatus(r.Status)
	case TaskLaunched:
		return fmt.Sprintf("launched %s/%s number %d", r.Framework, r.Task.ID, r.Number)
	case TaskKilled:
		return strings.TrimSpace(fmt.Sprintf("killed %s within %s %s %s", r.Task, r.Grace, r.Reason, r.Why))
	case ExecutorStarting:
		return "starting " + showRun(r.Run)
	case ExecutorStarted:
		return fmt.Sprintf("started %s pid %d", showRun(r.Run), r.Process.PID)
	case FrameworkKept:
		return "framework " + string(r.Framework.ID)
	default:
		return fmt.Sprintf("%T %+v", record, record)
	}
}

func showCall(call protocol.AgentCall) string {
	switch c := call.(type) {
	case protocol.RegisterAgent:
		return fmt.Sprintf("register nonce=%s boot=%s", c.Nonce, c.BootID)
	case protocol.ReregisterAgent:
		return fmt.Sprintf("reregister %s cluster=%s term=%s boot=%s", c.Agent.ID, c.Cluster, c.Term, c.BootID)
	case protocol.AgentReport:
		return showReport(c)
	case protocol.AgentHeartbeat:
		if c.Unable != "" {
			return "heartbeat: it can start nothing: " + c.Unable
		}
		return "heartbeat"
	case protocol.StatusUpdate:
		return "status " + showStatus(c.Status)
	case protocol.NeedSecrets:
		return "needs the secrets of " + c.TaskRef.String()
	case protocol.KillTaken:
		return "kill of " + c.TaskRef.String() + " taken"
	case protocol.ExecutorEnded:
		if c.Again {
			return fmt.Sprintf("executor %s ended and begins again: %s", c.ExecutorRef, c.Message)
		}
		return fmt.Sprintf("executor %s ended: %s", c.ExecutorRef, c.Message)
	default: // the others mean nothing here
	}
	return fmt.Sprintf("%T %+v", call, call)
}

func showReport(r protocol.AgentReport) string {
	var words []string
	for _, f := range r.Frameworks {
		words = append(words, string(f.ID))
	}
	for _, e := range r.Executors {
		words = append(words, fmt.Sprintf("executor %s/%s", e.Framework, e.Executor.ID))
	}
	for _, t := range r.Tasks {
		mark := ""
		if t.Ended {
			mark = " ended"
		}
		words = append(words, fmt.Sprintf("task %s %s%s (launch %s.%d)", t.Status.Ref(), t.Status.State, mark, t.Status.Launch.Term, t.Status.Launch.Number))
	}
	for _, s := range r.Stubs {
		words = append(words, fmt.Sprintf("stub %s %s", s.TaskRef, s.Status.State))
	}
	for _, v := range r.Volumes {
		words = append(words, fmt.Sprintf("volume %s of generation %d", v.Volume, v.Generation))
	}
	if r.Rebooted {
		words = append(words, "rebooted")
	}
	if r.Last {
		words = append(words, "last")
	}
	return fmt.Sprintf("report session=%d: %s", r.Session, strings.Join(slices.Clip(words), ", "))
}

func showExecutorEvent(event protocol.ExecutorEvent) string {
	switch e := event.(type) {
	case protocol.ExecutorSubscribed:
		return fmt.Sprintf("subscribed agent=%s recovery=%s", e.Agent, e.RecoveryTimeout)
	case protocol.ExecutorKill:
		return fmt.Sprintf("kill %s grace=%s", e.Task, e.Grace)
	case protocol.ExecutorAcknowledged:
		return fmt.Sprintf("acknowledged %s number %d", e.Task, e.Number)
	case protocol.ExecutorShutdown:
		return fmt.Sprintf("shutdown grace=%s", e.Grace)
	default: // the others mean nothing here
	}
	return fmt.Sprintf("%T %+v", event, event)
}
