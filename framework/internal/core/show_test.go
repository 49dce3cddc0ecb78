package core

import (
	"fmt"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// show writes an effect in the words of the transcripts. It leaves heartbeats out.
func show(effect Effect) string {
	switch e := effect.(type) {
	case Dial:
		return fmt.Sprintf("dial %s for %s; known are %v", e.Address, e.Timeout, e.Masters)
	case CloseLink:
		return "close the stream"
	case Send:
		return showCall(e.Number, e.Call)
	case Acknowledge:
		return fmt.Sprintf("< %d acknowledge %s of %s number %d", e.Number, e.Item.Task, e.Item.Agent, e.Item.Number)
	case SessionBegan:
		text := fmt.Sprintf("session %d of %s begins", e.Session, e.Framework)
		if e.Takeovers > 0 {
			text += fmt.Sprintf(", %d takeovers", e.Takeovers)
		}
		return text
	case SessionEnded:
		return "the session ends"
	case StandsBy:
		return "it stands by"
	case FrameworkChanged:
		return fmt.Sprintf("framework %s has roles %v after %d changes", e.Framework.ID, e.Framework.Roles, e.Changes)
	case UpdateEnded:
		return fmt.Sprintf("update %d: %s", e.Request, showError(e.Err))
	case WantedTold:
		return fmt.Sprintf("wanted %d: %s stated=%t", e.Request, showShapes(e.Shapes), e.Stated)
	case Ended:
		return "Run ends: " + showError(e.Err)
	case Log:
		return showLog(e)
	default:
		if count, is := effect.(Count); is {
			return fmt.Sprintf("count %s %+v", strings.TrimPrefix(fmt.Sprintf("%T", count), "core.Count"), count)
		}
		return showCallback(effect.(Callback))
	}
}

func showError(err error) string {
	if err == nil {
		return "well"
	}
	return err.Error()
}

func showLog(line Log) string {
	text := "# " + line.Message
	for _, field := range line.Fields {
		text += fmt.Sprintf(" %s=%q", strings.ReplaceAll(field.Name, " ", "-"), fmt.Sprint(field.Value))
	}
	return text
}

func showCall(number uint64, call protocol.SchedulerCall) string {
	var text string
	switch c := call.(type) {
	case protocol.SchedulerHeartbeat:
		return ""
	case protocol.Subscribe:
		text = fmt.Sprintf("subscribe id=%q cluster=%q suppressed=%v", c.Framework.ID, c.Cluster, c.Suppressed)
		if c.TellLater {
			text += " states=later"
		}
	case protocol.Unsettled:
		text = fmt.Sprintf("unsettled%s last=%t", showTasks(c.Tasks), c.Last)
	case protocol.Reconcile:
		text = "reconcile" + showTasks(c.Tasks)
	case protocol.Accept:
		text = fmt.Sprintf("accept %v: %s refuse=%s", c.Offers, showOperations(c.Operations), c.Filter.Refuse)
	case protocol.Decline:
		text = fmt.Sprintf("decline %v refuse=%s", c.Offers, c.Filter.Refuse)
		if c.Filter == api.NoFilter {
			text = fmt.Sprintf("decline %v without a filter", c.Offers)
		}
	case protocol.Kill:
		text = fmt.Sprintf("kill %s of %q grace=%s", c.Task, c.Agent, c.Grace)
	case protocol.SetDemand:
		text = fmt.Sprintf("demand in %s: %s", c.Role, showShapes(c.Shapes))
	case protocol.UpdateFramework:
		text = fmt.Sprintf("update framework %s roles=%v", c.Framework.ID, c.Framework.Roles)
	default:
		text = strings.TrimPrefix(fmt.Sprintf("%T %v", c, c), "protocol.")
	}
	return fmt.Sprintf("< %d %s", number, text)
}

func showTasks(tasks []protocol.UnsettledTask) string {
	text := ""
	for _, task := range tasks {
		text += fmt.Sprintf(" %s(of %q number %d %s)", task.Task, task.Agent, task.Number, task.State)
	}
	return text
}

func showOperations(operations []api.Operation) string {
	var words []string
	for _, operation := range operations {
		word := strings.TrimSpace(strings.ToLower(operation.Kind.String()) + " " + string(operation.ID))
		for _, task := range operation.Tasks {
			word += " " + string(task.ID)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func showShapes(shapes []api.Shape) string {
	if len(shapes) == 0 {
		return "nothing"
	}
	var words []string
	for _, shape := range shapes {
		words = append(words, fmt.Sprintf("%d of %s", shape.Count, shape.Resources))
	}
	return strings.Join(words, ", ")
}

func showCallback(callback Callback) string {
	text := ""
	switch c := callback.(type) {
	case CallOffers:
		for _, offer := range c.Offers {
			text += " " + string(offer.ID)
		}
		text = fmt.Sprintf("number %d:%s", c.Number, text)
	case CallUpdate:
		text = fmt.Sprintf("%s %s number %d", c.Status.Task, c.Status.State, c.Status.Number)
		if c.Status.Reason != api.ReasonNone {
			text += " " + c.Status.Reason.String()
		}
	case CallRescinded:
		text = fmt.Sprintf("%v: %s", c.Offers, c.Why)
	case CallInverseOffers:
		text = string(c.Offers[0].ID)
	case CallMessage:
		text = fmt.Sprintf("%s of %s: %s", c.Executor, c.Agent, c.Data)
	case CallExecutorLost:
		text = fmt.Sprintf("%s of %s: %s", c.Executor, c.Agent, c.Message)
	case CallAgentLost:
		text = fmt.Sprintf("%s: %s", c.Agent, c.Why)
		if c.Gone {
			text += ", for ever"
		}
	case CallOperationDone:
		text = fmt.Sprintf("%s of %q: well", c.Operation, c.Agent)
		if c.Err != nil {
			text = fmt.Sprintf("%s of %q: %s", c.Operation, c.Agent, c.Err)
		}
	case CallRefused:
		text = c.Err.Error()
	case CallTurn:
		text = fmt.Sprintf("function %d", c.Turn)
	case CallSubscribed, CallSettled:
	}
	return strings.TrimSpace("> " + callback.Name() + " " + text)
}
