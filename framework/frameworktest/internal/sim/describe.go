package sim

import (
	"fmt"
	"strings"

	agentcore "github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core"
)

// describe returns a value of the story as one line. The same value gives the same line: it contains no pointers and no
// maps.
func describe(value any) string {
	switch v := value.(type) {
	case core.SchedulerCalled:
		return fmt.Sprintf("scheduler %d:%s", v.Conn, describeAll(v.Calls))
	case core.SchedulerOpened:
		return fmt.Sprintf("scheduler %d opens: %s instance %s", v.Conn, v.Subscribe.Framework.Name, v.Subscribe.Instance)
	case core.AgentOpened:
		return fmt.Sprintf("agent %d opens: %s", v.Conn, describe(v.First))
	case core.AgentCalled:
		return fmt.Sprintf("agent %d:%s", v.Conn, describeAll(v.Calls))
	case core.Committed:
		return fmt.Sprintf("committed %d (%d commands)", v.Index, len(v.Commands))
	case core.Requested:
		if set, is := v.Action.(core.Set); is {
			return fmt.Sprintf("an operator sets %T", set.Setting)
		}
		return fmt.Sprintf("an operator asks: %T %+v", v.Action, v.Action)
	case agentcore.LeaderSaid:
		return fmt.Sprintf("leader on %d, %d events", v.Conn, len(v.Batch.Events))
	case agentcore.ExecutorOpened:
		return fmt.Sprintf("executor %s opens %d with tasks %v%s", v.Subscribe.ExecutorRef, v.Conn, v.Subscribe.Tasks, describeAll(v.Subscribe.Unacknowledged))
	case agentcore.ExecutorCalled:
		return fmt.Sprintf("executor on %d:%s", v.Conn, describeAll(v.Calls))
	case agentcore.Sampled:
		return "sampled"
	}
	return describeMessage(value)
}

func describeMessage(value any) string {
	switch v := value.(type) {
	case protocol.NumberedCall:
		return fmt.Sprintf("%d %s", v.Number, describe(v.Call))
	case protocol.RegisterAgent:
		return fmt.Sprintf("register %s %s %s", v.Agent.Hostname, v.Nonce, v.BootID)
	case protocol.ReregisterAgent:
		return fmt.Sprintf("reregister %s term %s %s %s", v.Agent.ID, v.Term, v.Nonce, v.BootID)
	case protocol.AgentReport:
		var text strings.Builder
		fmt.Fprintf(&text, "report of session %d", v.Session)
		for _, t := range v.Tasks {
			fmt.Fprintf(&text, " %s/%s=%s#%d", t.Framework, t.Task.ID, t.Status.State, t.Status.Number)
		}
		for _, e := range v.Executors {
			fmt.Fprintf(&text, " executor %s/%s", e.Framework, e.Executor.ID)
		}
		if v.Rebooted {
			text.WriteString(" rebooted")
		}
		return text.String()
	case protocol.AgentHeartbeat:
		return "heartbeat"
	case protocol.SchedulerHeartbeat:
		return "heartbeat"
	case protocol.StatusUpdate:
		return describe(v.Status)
	case protocol.Update:
		return describe(v.Status)
	case api.Status:
		return fmt.Sprintf("%s/%s is %s#%d on %s (%s by %s: %s)", v.Framework, v.Task, v.State, v.Number, v.Agent, v.Reason, v.Source, v.Message)
	case protocol.LaunchTask:
		return fmt.Sprintf("launch %s/%s as %d, executor %s with %v", v.Framework.ID, v.Task.ID, v.Number, v.Task.ExecutorID(), v.ExecutorResources)
	case protocol.LaunchGroup:
		words := make([]string, len(v.Tasks))
		for i, launch := range v.Tasks {
			words[i] = describe(launch)
		}
		return "as one group: " + strings.Join(words, ", ")
	case protocol.AgentRegistered:
		return fmt.Sprintf("registered as %s", v.Agent)
	case protocol.Accept:
		var text strings.Builder
		fmt.Fprintf(&text, "accept %v", v.Offers)
		for _, operation := range v.Operations {
			for _, task := range operation.Tasks {
				fmt.Fprintf(&text, " %s", task.Labels[labelOfTry])
			}
		}
		return text.String()
	case protocol.Offers:
		var text strings.Builder
		text.WriteString("offers")
		for _, offer := range v.Offers {
			fmt.Fprintf(&text, " %s: %s %v", offer.ID, offer.Agent, offer.Resources)
		}
		return text.String()
	case protocol.SubscribeExecutor:
		return fmt.Sprintf("subscribe %s", v.ExecutorRef)
	case protocol.ExecutorStatus:
		return fmt.Sprintf("%s is %s#%d", v.Task, v.State, v.Number)
	case protocol.Subscribed:
		return fmt.Sprintf("subscribed as %s, session %d", v.Framework, v.Session)
	case protocol.Refused:
		return fmt.Sprintf("refused %d: %v", v.Number, v.Err)
	case protocol.SetDemand:
		return fmt.Sprintf("demand %v", v.Shapes)
	}
	return describeRecord(value)
}

func describeRecord(value any) string {
	switch v := value.(type) {
	case agentcore.TaskLaunched:
		return fmt.Sprintf("launched %s/%s %d of term %s", v.Framework, v.Task.ID, v.Number, v.Term)
	case agentcore.TaskStatus:
		return describe(v.Status)
	case agentcore.ExecutorStarting:
		return fmt.Sprintf("starting %s run %d", v.Run.Executor, v.Run.Number)
	case agentcore.FrameworkKept:
		return fmt.Sprintf("keeps framework %s", v.Framework.ID)
	case agentcore.StubKept:
		return fmt.Sprintf("keeps stub of %s", v.Stub.TaskRef)
	case agentcore.TaskKilled:
		return fmt.Sprintf("kill of %s: %s", v.Task, v.Reason)
	}
	return fmt.Sprintf("%T %v", value, value)
}

func describeAll[T any](values []T) string {
	var text strings.Builder
	for _, value := range values {
		text.WriteString(" [" + describe(value) + "]")
	}
	return text.String()
}
