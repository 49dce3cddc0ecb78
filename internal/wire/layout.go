package wire

import (
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// layout is what is needed to count what is in an encoded message: which of its fields hold
// messages or lists of texts. All others cost their bytes.
type layout struct {
	fields []*fieldLayout // by number; nil: costs its bytes
}

type fieldLayout struct {
	nested *layout // of the message; nil: a text of a list
	item   bool    // each one counts as an item of its call
}

// itemFields are the lists whose members count; see schedulerCallItems and agentCallItems.
var itemFields = map[protoreflect.FullName]bool{
	"tender.v1.Unsettled.tasks":                   true,
	"tender.v1.Reconcile.tasks":                   true,
	"tender.v1.ReconcileOperations.operation_ids": true,
	"tender.v1.Acknowledge.items":                 true,
	"tender.v1.Accept.offer_ids":                  true,
	"tender.v1.Accept.operations":                 true,
	"tender.v1.Operation.resources":               true,
	"tender.v1.Operation.tasks":                   true,
	"tender.v1.Decline.offer_ids":                 true,
	"tender.v1.SetDemand.shapes":                  true,
	"tender.v1.Shape.resources":                   true,
	"tender.v1.Shape.preferred":                   true,
	"tender.v1.AnswerInverse.inverse_offer_ids":   true,
	"tender.v1.AgentReport.tasks":                 true,
	"tender.v1.AgentReport.executors":             true,
	"tender.v1.AgentReport.frameworks":            true,
	"tender.v1.AgentReport.stubs":                 true,
	"tender.v1.AgentReport.volumes":               true,
}

// Made when first needed: programs that receive no frames do without.
var (
	schedulerLayout = sync.OnceValue(func() *layout {
		return newLayout((*apiv1.SchedulerCalls)(nil).ProtoReflect().Descriptor(), map[protoreflect.FullName]*layout{})
	})
	agentLayout = sync.OnceValue(func() *layout {
		return newLayout((*apiv1.AgentCalls)(nil).ProtoReflect().Descriptor(), map[protoreflect.FullName]*layout{})
	})
	executorLayout = sync.OnceValue(func() *layout {
		return newLayout((*apiv1.ExecutorCalls)(nil).ProtoReflect().Descriptor(), map[protoreflect.FullName]*layout{})
	})
)

// newLayout reads a message's description; known are those that were read before, or are being read.
func newLayout(message protoreflect.MessageDescriptor, known map[protoreflect.FullName]*layout) *layout {
	if l := known[message.FullName()]; l != nil {
		return l
	}
	l := new(layout)
	known[message.FullName()] = l
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		one := &fieldLayout{item: itemFields[field.FullName()]}
		switch {
		case field.Message() != nil:
			one.nested = newLayout(field.Message(), known)
		case !field.IsList() || field.IsPacked():
			continue
		}
		for len(l.fields) <= int(field.Number()) {
			l.fields = append(l.fields, nil)
		}
		l.fields[field.Number()] = one
	}
	return l
}

// field is nil for what costs its bytes alone, also for what nobody knows.
func (l *layout) field(number protowire.Number) *fieldLayout {
	if int(number) >= len(l.fields) {
		return nil
	}
	return l.fields[number]
}
