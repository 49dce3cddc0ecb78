package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Object is what a change was about.
type Object struct{ Kind, Name string }

// String returns KIND/NAME.
func (o Object) String() string { return o.Kind + "/" + o.Name }

// ParseObject reads KIND/NAME. The name may contain slashes, as that of a secret does. "" is no object.
func ParseObject(text string) (Object, error) {
	if text == "" {
		return Object{}, nil
	}
	kind, name, _ := strings.Cut(text, "/")
	if !slices.Contains(ObjectKinds, kind) || name == "" {
		return Object{}, fmt.Errorf("%q is not KIND/NAME; KIND is one of %s", text, strings.Join(ObjectKinds, ", "))
	}
	return Object{kind, name}, nil
}

// is says whether two names are of the same object. For a task, one of the names may lack its framework.
func (o Object) is(other Object) bool {
	if o.Kind != other.Kind || o.Name == other.Name {
		return o == other
	}
	framework, id, whole := strings.Cut(o.Name, "/")
	otherFramework, otherID, otherWhole := strings.Cut(other.Name, "/")
	return o.Kind == taskKind && whole != otherWhole && (whole && id == otherFramework || otherWhole && otherID == framework)
}

const (
	agentKind     = "agent"
	frameworkKind = "framework"
	taskKind      = "task"
	tokenKind     = "token"
)

// Agent is an agent as the object of a change.
func Agent(id api.AgentID) Object { return Object{agentKind, string(id)} }

// Framework is a framework as the object of a change.
func Framework(id api.FrameworkID) Object { return Object{frameworkKind, string(id)} }

// Task is a task as the object of a change.
func Task(ref api.TaskRef) Object { return Object{taskKind, ref.String()} }

// Token is a token as the object of a change, by its ID.
func Token(id string) Object { return Object{tokenKind, id} }

// ObjectKinds are the kinds of objects.
var ObjectKinds = []string{agentKind, frameworkKind, "job", "master", "principal", "role", "secret", taskKind, tokenKind, "volume"}

// named holds the fields that name an object in all requests, with the kind of the object.
var named = map[string]string{
	"agent_id": agentKind, "agent_ids": agentKind, agentKind: agentKind, "framework_id": frameworkKind, "framework": frameworkKind,
	"principal": "principal", "role": "role", "roles": "role", "task": taskKind, "volume": "volume",
}

// namedBy holds, by method, the fields that name an object only in the request of that method.
var namedBy = map[string]struct{ field, kind string }{
	"AddPeer": {"id", "master"}, "RemovePeer": {"id", "master"}, "TransferLeader": {"id", "master"},
	"SetSecret": {"name", "secret"}, "RemoveSecret": {"name", "secret"}, "RevokeToken": {"id", tokenKind},
	"RollbackJob": {"name", "job"}, "RunJobNow": {"name", "job"}, "StopJob": {"name", "job"}, "DeleteJob": {"name", "job"},
}

// objectsOf returns what a change was about: the objects in its request, ordered by field name, and those in About.
func objectsOf(l Line) []Object {
	objects := requested(l)
	for _, text := range l.About {
		if object, err := ParseObject(text); err == nil {
			objects = with(objects, object)
		}
	}
	return objects
}

// requested returns the objects that the request of a change names.
func requested(l Line) []Object {
	var request map[string]json.RawMessage
	if json.Unmarshal(l.On, &request) != nil {
		return nil // nothing is known of it
	}
	objects := objectsIn(request, nil)
	if by, is := namedBy[l.Call[strings.LastIndexByte(l.Call, '/')+1:]]; is {
		objects = namedIn(request[by.field], by.kind, objects)
	}
	objects = ofTicket(request, objects)
	for _, part := range []string{"grant", "job"} {
		var fields map[string]json.RawMessage
		if json.Unmarshal(request[part], &fields) != nil {
			continue
		}
		if objects = objectsIn(fields, objects); part == "job" {
			objects = namedIn(fields["name"], "job", objects)
		}
	}
	return objects
}

func objectsIn(fields map[string]json.RawMessage, objects []Object) []Object {
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if kind := named[field]; kind != "" {
			objects = namedIn(fields[field], kind, objects)
		}
	}
	return objects
}

// namedIn adds the objects that a field names, which is one text or a list of texts.
func namedIn(value json.RawMessage, kind string, objects []Object) []Object {
	var one string
	names := []string{}
	if json.Unmarshal(value, &one) == nil {
		names = append(names, one)
	} else if json.Unmarshal(value, &names) != nil {
		return objects
	}
	for _, name := range names {
		if framework, _, both := strings.Cut(name, "/"); kind == taskKind && both { // as people write it
			objects = with(objects, Object{frameworkKind, framework})
		}
		objects = with(objects, Object{kind, name})
	}
	return objects
}

// ofTicket adds the task of a request that names task and framework in two fields.
func ofTicket(request map[string]json.RawMessage, objects []Object) []Object {
	var framework, task string
	if json.Unmarshal(request["framework_id"], &framework) != nil || json.Unmarshal(request["task_id"], &task) != nil || task == "" {
		return objects
	}
	return with(objects, Object{taskKind, framework + "/" + task})
}

func with(objects []Object, object Object) []Object {
	if object.Name == "" || slices.Contains(objects, object) {
		return objects
	}
	return append(objects, object)
}
