package wire

import (
	"fmt"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// A message of a megabyte may hold hundreds of thousands of calls, or of things that its calls list. Each of these
// takes many times its encoded bytes once it is read. So they are counted before they are read (a Frame counts without
// reading), and senders split their messages by the same count (R34).

// schedulerCallItems counts a call and what it lists.
func schedulerCallItems(m *apiv1.SchedulerCall) int {
	switch call := m.GetCall().(type) {
	case *apiv1.SchedulerCall_Unsettled:
		return 1 + len(call.Unsettled.GetTasks())
	case *apiv1.SchedulerCall_Reconcile:
		return 1 + len(call.Reconcile.GetTasks())
	case *apiv1.SchedulerCall_Operations:
		return 1 + len(call.Operations.GetOperationIds())
	case *apiv1.SchedulerCall_Acknowledge:
		return 1 + len(call.Acknowledge.GetItems())
	case *apiv1.SchedulerCall_Accept:
		items := 1 + len(call.Accept.GetOfferIds())
		for _, operation := range call.Accept.GetOperations() {
			items += 1 + len(operation.GetResources()) + len(operation.GetTasks())
		}
		return items
	case *apiv1.SchedulerCall_Decline:
		return 1 + len(call.Decline.GetOfferIds())
	case *apiv1.SchedulerCall_Demand:
		items := 1
		for _, shape := range call.Demand.GetShapes() {
			items += 1 + len(shape.GetResources()) + len(shape.GetPreferred())
		}
		return items
	case *apiv1.SchedulerCall_Inverse:
		return 1 + len(call.Inverse.GetInverseOfferIds())
	}
	return 1
}

// agentCallItems counts a call and what it lists.
func agentCallItems(m *apiv1.AgentCall) int {
	report := m.GetReport()
	return 1 + len(report.GetTasks()) + len(report.GetExecutors()) + len(report.GetFrameworks()) + len(report.GetStubs()) + len(report.GetVolumes())
}

// checkCalls refuses a message with too many calls, or too many items in them.
func checkCalls[M any](op string, calls []M, items func(M) int) error {
	count := 0
	for _, call := range calls {
		count += items(call)
	}
	return checkCounts(op, len(calls), count)
}

func checkCounts(op string, calls, items int) error {
	switch {
	case calls > api.CallsPerMessageMax:
		return api.E(op, api.Limit, "", fmt.Errorf("%d calls in one message, at most %d are allowed", calls, api.CallsPerMessageMax))
	case items > api.ItemsPerMessageMax:
		return api.E(op, api.Limit, "", fmt.Errorf("%d calls, tasks and the like in one message, at most %d are allowed", items, api.ItemsPerMessageMax))
	}
	return nil
}

// one counts a call that lists nothing.
func one[M any](M) int { return 1 }
