package protocol

import "github.com/tenderhq/tender/api"

// The functions in this file estimate how many bytes a value takes while it waits in a queue or is in a message: the
// size of its texts and data, plus a generous amount for everything else. Every queue and every page of a report is
// limited by these estimates (R34).

// itemBytes is about what one item takes besides its texts and data.
const itemBytes = 320

// SchedulerEventBytes estimates an event for a scheduler.
func SchedulerEventBytes(event SchedulerEvent) int {
	switch event := event.(type) {
	case Update:
		return StatusBytes(event.Status)
	case MessageFramework:
		return itemBytes + len(event.Data)
	case Offers:
		return 2 * itemBytes * len(event.Offers)
	default: // too small to count
	}
	return itemBytes
}

// AgentEventBytes estimates an event for an agent.
func AgentEventBytes(event AgentEvent) int {
	switch event := event.(type) {
	case LaunchTask:
		// The framework is not counted: all launches of a batch share one value.
		return TaskBytes(&event.Task) + event.Resources.Bytes() + event.ExecutorResources.Bytes()
	case LaunchGroup:
		bytes := itemBytes
		for i := range event.Tasks {
			bytes += AgentEventBytes(event.Tasks[i])
		}
		return bytes
	case MessageToExecutor:
		return itemBytes + len(event.Data)
	case TaskSecrets:
		return itemBytes + SecretsBytes(event.Values)
	default: // too small to count
	}
	return itemBytes
}

// SecretsBytes estimates the values of secrets.
func SecretsBytes(values []SecretValue) int {
	bytes := 0
	for _, value := range values {
		bytes += 64 + len(value.ID) + len(value.Value)
	}
	return bytes
}

// AgentCallBytes estimates a call of an agent, other than a report, whose items are estimated one by one.
func AgentCallBytes(call AgentCall) int {
	switch call := call.(type) {
	case StatusUpdate:
		return StatusBytes(call.Status)
	case MessageFromExecutor:
		return itemBytes + len(call.Data)
	case ExecutorEnded:
		return itemBytes + len(call.Message)
	case AgentHeartbeat:
		return UsageBytes(call.Usage) + len(call.Unable)
	default: // too small to count
	}
	return itemBytes
}

// StatusBytes estimates a status of a task.
func StatusBytes(status api.Status) int {
	return itemBytes + len(status.Task) + len(status.Message) + len(status.Data) + len(status.Image) + 5*len(status.GPUs)
}

// TaskBytes estimates a task as it is launched.
func TaskBytes(task *api.Task) int { return itemBytes + task.Bytes() }

// ExecutorBytes estimates the description of an executor.
func ExecutorBytes(e *api.Executor) int { return itemBytes + e.Bytes() }

// UsageBytes estimates a usage report.
func UsageBytes(usage UsageReport) int {
	bytes := itemBytes
	for ref := range usage.Executors { // order: irrelevant because it is a sum
		bytes += len(ref.Framework) + len(ref.Executor) + 128
	}
	for ref := range usage.Tasks { // order: irrelevant because it is a sum
		bytes += len(ref.Framework) + len(ref.Task) + 128
	}
	return bytes
}
