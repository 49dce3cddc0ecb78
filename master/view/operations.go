package view

import (
	"fmt"

	"github.com/tenderhq/tender/api"
)

// Operation is an operation as people see it.
type Operation struct {
	Operation     api.Operation // of one that is over only its ID
	Framework     api.FrameworkID
	FrameworkName string
	Agent         api.AgentID
	Hostname      string
	Role          api.Role // of one that waits
	State         OperationState
	Why           string // it was refused
}

// OperationState says what has become of an operation.
type OperationState string

// The states of operations.
const (
	OperationWaits   OperationState = "waiting"
	OperationDone    OperationState = "done"
	OperationRefused OperationState = "refused"
)

// OperationList notes the operations, as they are, that wait for the quorum; with query.All also those whose result is
// remembered. Only the leader knows any.
func OperationList(c Cluster, query Query) Listing[Operation] {
	type numbered struct {
		Operation
		number int // an ID may be used again, and there may be none
	}
	name := func(o numbered) string { return fmt.Sprintf("%s/%s", o.Framework, o.Operation.Operation.ID) }
	list := &listing[numbered, Operation]{name: func(o numbered) string { return fmt.Sprintf("%s %s %d", name(o), o.Agent, o.number) }}
	list.reader = func(c Cluster, query *Query) func(numbered) (Operation, bool) {
		return func(o numbered) (Operation, bool) {
			return o.Operation, c.selects(query, name(o), o.Agent, o.Framework, o.Role)
		}
	}
	if c.Leader != nil {
		for number, o := range c.Leader.Operations(query.All) {
			list.note(numbered{o, number})
		}
	}
	return list
}
