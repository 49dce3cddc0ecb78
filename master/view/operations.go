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

// Operations returns a page of the operations that wait for the quorum; with query.All also of those whose result is
// remembered. Only the leader knows any.
func (c Cluster) Operations(query Query) Page[Operation] {
	if c.Leader == nil {
		return Page[Operation]{}
	}
	list := newRows[Operation](query)
	for number, o := range c.Leader.Operations(query.All) {
		if name := fmt.Sprintf("%s/%s", o.Framework, o.Operation.ID); c.selects(query, name, o.Agent, o.Framework, o.Role) {
			list.add(fmt.Sprintf("%s %s %d", name, o.Agent, number), o) // an ID may be used again, and there may be none
		}
	}
	return pageOf(list, func(o Operation) Operation { return o })
}
