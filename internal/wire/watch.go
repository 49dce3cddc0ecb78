package wire

import (
	"strings"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

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
