package watching

import (
	"cmp"
	"slices"
	"strings"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/registry"
)

// Entry is one change in a log: an event, a view of a thing, or both. Entries are never edited.
type Entry struct {
	cursor wire.Cursor
	event  []byte // encoded; nil: only figures have changed
	shown  *shown // nil: there is no view
	missed string // it is no change: what was told before is to be forgotten, and why
}

// shown is a view of a thing, as it is sent.
type shown struct {
	view []byte // a Change without its event
	gone bool   // the view says that the thing is no more
	thing
}

// thing says what an entry is of, and what it concerns. That decides who is told.
type thing struct {
	kind, name                               string
	agent, framework, role, task, job, owner string
	roles                                    []string // of a framework
}

// key returns the name under which the log keeps the latest view of the thing.
func (t *thing) key() string { return t.kind + "/" + t.name }

// entryBytes is what an entry takes beside its texts.
const entryBytes = 128

// bytes returns about how much memory the entry takes.
func (e *Entry) bytes() int {
	n := entryBytes + len(e.event)
	if e.shown != nil {
		n += 2*entryBytes + len(e.shown.view)
	}
	return n
}

// of returns what the entry is of.
func (e *Entry) of() thing {
	if e.shown != nil {
		return e.shown.thing
	}
	event := wire.Event{About: make([]string, 0, aboutMost)}
	_ = event.Read(e.event) // it was read when it came
	return thingOf(&event)
}

// Changed makes an entry of a change that another master has told, or of a view.
func Changed(message *apiv1.Change, at wire.Cursor) Entry {
	e := Entry{cursor: at}
	if message.GetEvent() != nil {
		encoded, _ := proto.Marshal(message.GetEvent()) // a message that was read can be written
		e, _ = Told(encoded)
	}
	if kind, _ := wire.ChangeName(message); kind == "" {
		return e
	}
	if e.event == nil {
		e.shown = viewOf(message)
		return e
	}
	bare := proto.CloneOf(message)
	bare.Event = nil
	e.shown = viewOf(bare)
	e.shown.thing = e.shown.or(e.of())
	return e
}

// viewOf returns the view that a change without an event has.
func viewOf(message *apiv1.Change) *shown {
	view := &shown{gone: message.GetRemoved() != "", thing: thingShown(message)}
	view.view, _ = proto.MarshalOptions{Deterministic: true}.Marshal(message) // a message of ours can always be written
	return view
}

// Told makes an entry of an encoded event that another master has told.
func Told(encoded []byte) (Entry, error) {
	event := wire.Event{About: make([]string, 0, aboutMost)} // not more by a bit each time
	err := event.Read(encoded)
	return Entry{cursor: event.Cursor, event: encoded}, err
}

// aboutMost is how many things an event concerns at most, usually.
const aboutMost = 8

// describer makes events of records, one after the other, in the same memory.
type describer struct {
	stream *Stream
	event  wire.Event
	texts  []byte          // those of the event that were joined
	told   map[string]bool // tasks whose ends earlier leaders have told
}

// eventOf makes the event of a record. It lives until the next one is made.
func (t *describer) eventOf(r *numbered) *wire.Event {
	t.texts = t.texts[:0]
	t.event = wire.Event{
		Cursor: wire.Cursor{Term: t.stream.Term, Number: r.number}, At: r.At, Kind: string(r.Kind), What: string(r.What), Why: r.Sentence(),
		By: r.By.Name, About: t.event.About[:0], Notable: r.Notable(), Set: setOf(&r.Record),
	}
	of := r.Of()
	if t.event.Name = of.Name; of.Within != "" {
		t.event.Name = t.join(of.Name, "/", of.Within)
	}
	switch {
	case r.By == (change.Actor{}):
		t.event.By = t.join("leader", " ", string(t.stream.Leader))
	case r.By.Kind != "":
		t.event.By = t.join(r.By.Kind, " ", r.By.Name)
	}
	if t.event.Heard = r.Heard != nil; t.event.Heard && t.told[t.event.Name] {
		t.event.What, t.event.Why, t.event.Notable, t.event.Heard = wire.ToldAgain, wire.ToldAgainWhy, false, false
	}
	t.about("agent", string(r.Agent))
	t.about("framework", string(r.Framework))
	t.about("role", string(r.Role))
	if r.Task != "" {
		t.event.About = append(t.event.About, t.join("task/", string(r.Framework), "/", string(r.Task)))
	}
	t.about("job", r.Job)
	t.about("owner", r.Owner)
	return &t.event
}

func (t *describer) about(kind, name string) {
	if name != "" {
		t.event.About = append(t.event.About, t.join(kind, "/", name))
	}
}

// join returns the parts as one text, which lives as long as the event.
func (t *describer) join(parts ...string) string {
	start := len(t.texts)
	for _, part := range parts {
		t.texts = append(t.texts, part...)
	}
	return unsafe.String(unsafe.SliceData(t.texts[start:]), len(t.texts)-start)
}

// thingOf returns what an event is of, and what it says that it concerns.
func thingOf(event *wire.Event) thing {
	t := thing{kind: event.Kind, name: event.Name}
	for _, text := range event.About {
		kind, name, _ := strings.Cut(text, "/")
		switch kind {
		case "agent":
			t.agent = name
		case "framework":
			t.framework = name
		case "role":
			t.role = name
		case "task":
			t.task = name
		case "job":
			t.job = name
		case "owner":
			t.owner = name
		}
	}
	return t
}

// thingShown returns what the view of a change is of, and what it concerns.
func thingShown(message *apiv1.Change) (t thing) {
	t.kind, t.name = wire.ChangeName(message)
	switch view := message.GetView().(type) {
	case *apiv1.Change_Agent:
		t.agent = view.Agent.GetId()
	case *apiv1.Change_Framework:
		t.framework, t.roles = view.Framework.GetId(), view.Framework.GetRoles()
	case *apiv1.Change_Task:
		task := view.Task
		t.agent, t.framework, t.role, t.owner = task.GetAgentId(), task.GetFrameworkId(), task.GetRole(), task.GetOwner()
		t.task, t.job = task.GetFrameworkId()+"/"+task.GetId(), task.GetLabels()[api.JobLabel]
	case *apiv1.Change_Offer:
		t.agent, t.framework, t.role = view.Offer.GetAgentId(), view.Offer.GetFrameworkId(), view.Offer.GetRole()
	case *apiv1.Change_Role:
		t.role = view.Role.GetRole()
	case *apiv1.Change_Secret:
		t.role = view.Secret.GetRole()
	}
	return t
}

// or returns t with what it lacks and u has.
func (t thing) or(u thing) thing {
	if t.roles == nil {
		t.roles = u.roles
	}
	t.agent, t.framework, t.role = cmp.Or(t.agent, u.agent), cmp.Or(t.framework, u.framework), cmp.Or(t.role, u.role)
	t.task, t.job, t.owner = cmp.Or(t.task, u.task), cmp.Or(t.job, u.job), cmp.Or(t.owner, u.owner)
	return t
}

// wants reports whether a watcher has asked for a thing.
func wants(r *apiv1.WatchRequest, t *thing) bool {
	is := func(wanted, name string) bool { return wanted == "" || wanted == name }
	return (len(r.GetKinds()) == 0 || slices.Contains(r.GetKinds(), t.kind)) &&
		is(r.GetFrameworkId(), t.framework) && is(r.GetAgentId(), t.agent) && is(r.GetTask(), t.task) && is(r.GetJob(), t.job) &&
		(is(r.GetRole(), t.role) || slices.Contains(t.roles, r.GetRole()))
}

// wantsAll reports whether a watcher has asked for everything.
func wantsAll(r *apiv1.WatchRequest) bool {
	return len(r.GetKinds()) == 0 && r.GetFrameworkId() == "" && r.GetRole() == "" && r.GetAgentId() == "" && r.GetTask() == "" && r.GetJob() == ""
}

// seen reports whether a caller with this scope may see the thing, as the lists would show it.
func (t *thing) seen(by rights.Scope, state *registry.State) bool {
	if by.Everything {
		return true
	}
	switch change.Kind(t.kind) {
	case change.Framework:
		return by.CoversAny(t.object(state), state.Frameworks[api.FrameworkID(t.framework)].Framework.Roles)
	case change.Task, change.Offer, change.Executor, change.Operation, change.Secret, change.Job:
		return by.Covers(t.object(state))
	case change.Principal, change.Authority:
		return by.Covers(rights.Object{})
	case change.Token:
		return by.As(rights.Admin).Covers(rights.Object{})
	}
	return true // agents and what is on them, roles, masters: everybody's lists show them
}

// Sees reports whether a caller with this scope may see an event, as seen does for one that is watched.
func Sees(event *apiv1.Event, by rights.Scope, state *registry.State) bool {
	t := thingOf(&wire.Event{Kind: event.GetKind(), Name: event.GetName(), About: event.GetAbout()})
	return t.seen(by, state)
}

// object returns the thing as the object of a grant.
func (t *thing) object(state *registry.State) rights.Object {
	o := rights.Object{Role: api.Role(t.role), Framework: api.FrameworkID(t.framework), Agent: api.AgentID(t.agent), Owner: t.owner}
	known := state.Frameworks[o.Framework].Framework
	o.Name, o.Principal, o.Hostname = known.Name, known.Principal, state.Agents[o.Agent].Agent.Hostname
	return o
}

// hidden replaces what only some may see.
const hidden = "(hidden)"

// message returns the entry as a message for a caller with this scope.
func (e *Entry) message(by rights.Scope, state *registry.State) *apiv1.Change {
	message := &apiv1.Change{}
	_ = proto.Unmarshal(e.append(make([]byte, 0, e.size())), message) // it was written by us
	if by.Everything {
		return message
	}
	of := e.of()
	if agent := message.GetAgent(); agent != nil && !by.Covers(of.object(state)) {
		agent.Address = ""
	}
	if task := message.GetTask(); task != nil && !by.Reveals(of.object(state)) {
		for name := range task.GetCommand().GetEnv() { // order: irrelevant because all are hidden
			task.Command.Env[name] = hidden
		}
	}
	if person, is := strings.CutPrefix(message.GetEvent().GetBy(), "person "); is && person != by.Who && !by.Covers(rights.Object{}) {
		message.Event.By = "person"
	}
	return message
}

const (
	// changeEvent is the number of Change.event, responseItems that of WatchResponse.items.
	changeEvent   = 1
	responseItems = 1
)

// size returns how many bytes the entry has as a Change.
func (e *Entry) size() (n int) {
	if e.event != nil {
		n = protowire.SizeTag(changeEvent) + protowire.SizeBytes(len(e.event))
	}
	if e.shown != nil {
		n += len(e.shown.view)
	}
	return n
}

// append appends the entry as a Change.
func (e *Entry) append(to []byte) []byte {
	if e.event != nil {
		to = protowire.AppendBytes(protowire.AppendTag(to, changeEvent, protowire.BytesType), e.event)
	}
	if e.shown != nil {
		to = append(to, e.shown.view...)
	}
	return to
}

// itemSize returns how many bytes the entry has as an item of a WatchResponse.
func (e *Entry) itemSize() int {
	return protowire.SizeTag(responseItems) + protowire.SizeBytes(e.size())
}

// appendItem appends the entry as an item of a WatchResponse, as it was written: nothing of it is read.
func (e *Entry) appendItem(to []byte) []byte {
	to = protowire.AppendTag(to, responseItems, protowire.BytesType)
	return e.append(protowire.AppendVarint(to, uint64(e.size())))
}
