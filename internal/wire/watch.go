package wire

import (
	"cmp"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// Cursor is a place in what leaders tell: later leaders have larger terms, and each counts its events from 1.
type Cursor struct {
	Term   api.Term
	Number uint64
}

// CursorOf reads a cursor; that of nil is zero.
func CursorOf(message *apiv1.Cursor) Cursor {
	return Cursor{TermFromProto(message.GetTerm()), message.GetNumber()}
}

// Proto returns the cursor as a message.
func (c Cursor) Proto() *apiv1.Cursor {
	return &apiv1.Cursor{Term: TermToProto(c.Term), Number: c.Number}
}

// IsZero reports whether it is before everything.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// Compare returns -1, 0 or +1 as c is before, the same as or behind d.
func (c Cursor) Compare(d Cursor) int {
	return cmp.Or(c.Term.Compare(d.Term), cmp.Compare(c.Number, d.Number))
}

// ChangeView returns the view that a change has; nil: it has none.
func ChangeView(change *apiv1.Change) proto.Message {
	message := change.ProtoReflect()
	field := message.WhichOneof(message.Descriptor().Oneofs().ByName("view"))
	if field == nil {
		return nil
	}
	return message.Get(field).Message().Interface()
}

// EventAbout returns the names of the things that an event concerns, by their kinds.
func EventAbout(event *apiv1.Event) map[string]string {
	about := make(map[string]string)
	for _, thing := range event.GetAbout() {
		kind, name, _ := strings.Cut(thing, "/")
		about[kind] = name
	}
	return about
}

// ChangeName returns the kind and the name of the thing whose view a change has, or that it says is no more; "" when it
// has only an event.
func ChangeName(change *apiv1.Change) (kind, name string) {
	switch view := change.GetView().(type) {
	case *apiv1.Change_Agent:
		return "agent", view.Agent.GetId()
	case *apiv1.Change_Framework:
		return "framework", view.Framework.GetId()
	case *apiv1.Change_Task:
		return "task", view.Task.GetFrameworkId() + "/" + view.Task.GetId()
	case *apiv1.Change_Offer:
		return "offer", view.Offer.GetId()
	case *apiv1.Change_Role:
		return "role", view.Role.GetRole()
	case *apiv1.Change_Master:
		return "master", view.Master.GetId()
	case *apiv1.Change_Principal:
		return "principal", view.Principal.GetName()
	case *apiv1.Change_Secret:
		return "secret", view.Secret.GetName()
	case *apiv1.Change_Token:
		return "token", view.Token.GetId()
	}
	kind, name, _ = strings.Cut(change.GetRemoved(), "/")
	return kind, name
}
