package watching

import (
	"cmp"
	"strings"

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
	event  *apiv1.Event // nil: only figures have changed
	view   []byte       // the rest of the Change as a message; nil: there is no view
	gone   bool         // the view says that the thing is no more
	missed string       // it is no change: what was told before is to be forgotten, and why

	kind, name string // of the thing
	about
}

// about holds what an entry concerns. It decides who is told.
type about struct {
	agent, framework, role, task, job, owner string
	roles                                    []string // of a framework
}

// key returns the name under which the log keeps the latest view of the thing.
func (e *Entry) key() string { return e.kind + "/" + e.name }

// bytes returns about how much memory the entry takes.
func (e *Entry) bytes() int { return 512 + len(e.view) }

// Changed makes an entry of a change that another master has told, or of a view.
func Changed(message *apiv1.Change, at wire.Cursor) Entry {
	e := Entry{cursor: at, event: message.GetEvent()}
	if e.event != nil {
		e.cursor = wire.CursorOf(e.event.GetCursor())
		e.kind, e.name = e.event.GetKind(), e.event.GetName()
		e.about = aboutEvent(e.event)
	}
	kind, name := wire.ChangeName(message)
	if kind == "" {
		return e
	}
	e.kind, e.name = kind, name
	if e.gone = message.GetRemoved() != ""; !e.gone {
		e.about = e.or(aboutView(message))
	}
	bare := message
	if e.event != nil {
		bare = proto.CloneOf(message)
		bare.Event = nil
	}
	e.view, _ = proto.MarshalOptions{Deterministic: true}.Marshal(bare) // a message of ours can always be written
	return e
}

// Gone makes an entry that says that a thing is no more.
func Gone(kind, name string, at wire.Cursor) Entry {
	return Changed(&apiv1.Change{Removed: kind + "/" + name}, at)
}

// happened makes an entry of a record of this master's own core.
func happened(s *Stream, r *numbered) Entry {
	e := Entry{cursor: wire.Cursor{Term: s.Term, Number: r.number}, kind: string(r.Kind), name: r.Of()}
	e.event = &apiv1.Event{
		Cursor: e.cursor.Proto(), At: wire.TimeToProto(r.At), Kind: e.kind, Name: e.name, What: string(r.What), Why: r.Sentence(),
		By: r.By.String(), Notable: r.Notable(),
	}
	if e.event.By == "" {
		e.event.By = "leader " + string(s.Leader)
	}
	add := func(kind, name string) {
		if name != "" {
			e.event.About = append(e.event.About, kind+"/"+name)
		}
	}
	e.about = about{agent: string(r.Agent), framework: string(r.Framework), role: string(r.Role), job: r.Job, owner: r.Owner}
	if r.Task != "" {
		e.task = string(r.Framework) + "/" + string(r.Task)
	}
	add("agent", e.agent)
	add("framework", e.framework)
	add("role", e.role)
	add("task", e.task)
	add("job", e.job)
	add("owner", e.owner)
	return e
}

// aboutEvent returns what an event says that it concerns.
func aboutEvent(event *apiv1.Event) (a about) {
	for _, text := range event.GetAbout() {
		kind, name, _ := strings.Cut(text, "/")
		switch kind {
		case "agent":
			a.agent = name
		case "framework":
			a.framework = name
		case "role":
			a.role = name
		case "task":
			a.task = name
		case "job":
			a.job = name
		case "owner":
			a.owner = name
		}
	}
	return a
}

// jobLabel is the label by which a task says whose job it belongs to.
const jobLabel = "tender.job"

// aboutView returns what the view of a change concerns.
func aboutView(message *apiv1.Change) about {
	switch view := message.GetView().(type) {
	case *apiv1.Change_Agent:
		return about{agent: view.Agent.GetId()}
	case *apiv1.Change_Framework:
		return about{framework: view.Framework.GetId(), roles: view.Framework.GetRoles()}
	case *apiv1.Change_Task:
		t := view.Task
		return about{agent: t.GetAgentId(), framework: t.GetFrameworkId(), role: t.GetRole(), owner: t.GetOwner(),
			task: t.GetFrameworkId() + "/" + t.GetId(), job: t.GetLabels()[jobLabel]}
	case *apiv1.Change_Offer:
		return about{agent: view.Offer.GetAgentId(), framework: view.Offer.GetFrameworkId(), role: view.Offer.GetRole()}
	case *apiv1.Change_Role:
		return about{role: view.Role.GetRole()}
	case *apiv1.Change_Secret:
		return about{role: view.Secret.GetRole()}
	}
	return about{}
}

// or returns what a concerns, and for the rest what b does.
func (a about) or(b about) about {
	return about{
		agent: cmp.Or(a.agent, b.agent), framework: cmp.Or(a.framework, b.framework), role: cmp.Or(a.role, b.role), task: cmp.Or(a.task, b.task),
		job: cmp.Or(a.job, b.job), owner: cmp.Or(a.owner, b.owner), roles: b.roles,
	}
}

// wanted reports whether a watcher has asked for the entry.
func (e *Entry) wanted(r *apiv1.WatchRequest) bool {
	has := func(want string, have ...string) bool {
		if want == "" {
			return true
		}
		for _, one := range have {
			if one == want {
				return true
			}
		}
		return false
	}
	kinds := r.GetKinds()
	if len(kinds) > 0 && !has(e.kind, kinds...) {
		return false
	}
	return has(r.GetFrameworkId(), e.framework) && has(r.GetAgentId(), e.agent) && has(r.GetTask(), e.task) && has(r.GetJob(), e.job) &&
		(r.GetRole() == "" || has(r.GetRole(), append(e.roles, e.role)...))
}

// seen reports whether a caller with this scope may see the entry, as the lists would show it.
func (e *Entry) seen(by rights.Scope, state *registry.State) bool {
	if by.Everything {
		return true
	}
	switch change.Kind(e.kind) {
	case change.Framework:
		return by.CoversAny(e.object(state), state.Frameworks[api.FrameworkID(e.framework)].Framework.Roles)
	case change.Task, change.Offer, change.Executor, change.Operation, change.Secret:
		return by.Covers(e.object(state))
	case change.Principal, change.Authority:
		return by.Covers(rights.Object{})
	case change.Token:
		return by.As(rights.Admin).Covers(rights.Object{})
	}
	return true // agents and what is on them, roles, masters: everybody's lists show them
}

// Sees reports whether a caller with this scope may see an event, as seen does for one that is watched.
func Sees(event *apiv1.Event, by rights.Scope, state *registry.State) bool {
	e := Entry{kind: event.GetKind(), name: event.GetName(), about: aboutEvent(event)}
	return e.seen(by, state)
}

// object returns the thing as the object of a grant.
func (e *Entry) object(state *registry.State) rights.Object {
	o := rights.Object{Role: api.Role(e.role), Framework: api.FrameworkID(e.framework), Agent: api.AgentID(e.agent), Owner: e.owner}
	known := state.Frameworks[o.Framework].Framework
	o.Name, o.Principal, o.Hostname = known.Name, known.Principal, state.Agents[o.Agent].Agent.Hostname
	return o
}

// hidden replaces what only some may see.
const hidden = "(hidden)"

// message returns the entry as a message for a caller with this scope. For a caller who may see everything the view is
// not read; it is sent as it was written.
func (e *Entry) message(by rights.Scope, state *registry.State, decode bool) *apiv1.Change {
	message := &apiv1.Change{}
	switch {
	case e.view == nil:
	case by.Everything && !decode:
		message.ProtoReflect().SetUnknown(e.view)
	default:
		_ = proto.Unmarshal(e.view, message) // it was written by us
	}
	message.Event = e.event
	if by.Everything {
		return message
	}
	if agent := message.GetAgent(); agent != nil && !by.Covers(e.object(state)) {
		agent.Address = ""
	}
	if task := message.GetTask(); task != nil && !by.Reveals(e.object(state)) {
		for name := range task.GetCommand().GetEnv() { // order: irrelevant because all are hidden
			task.Command.Env[name] = hidden
		}
	}
	if person, is := strings.CutPrefix(e.event.GetBy(), "person "); is && person != by.Who && !by.Covers(rights.Object{}) {
		message.Event = proto.CloneOf(e.event)
		message.Event.By = "person"
	}
	return message
}

// Batch is what a source tells at once, in order.
type Batch struct {
	Entries []Entry
	At      wire.Cursor    // behind the last event
	latest  map[string]int // by the name of a thing: its latest entry
}

// Next returns the records from a place on, up to most, a batch with those of them that are events, and the place behind
// them. It returns false if the records there are forgotten.
func (s *Stream) Next(from uint64, most int) (records []change.Record, batch Batch, next uint64, known bool) {
	numbers, next, number, known := s.read(from, most)
	if !known {
		return nil, batch, 0, false
	}
	batch = Batch{At: wire.Cursor{Term: s.Term, Number: number}, latest: make(map[string]int)}
	for i := range numbers {
		records = append(records, numbers[i].Record)
		if numbers[i].IsEvent() {
			batch.add(happened(s, &numbers[i]))
		}
	}
	return records, batch, next, true
}

func (b *Batch) add(e Entry) {
	b.latest[e.key()] = len(b.Entries)
	b.Entries = append(b.Entries, e)
}

// Attach adds a view, to the latest event of its thing or as an entry of its own.
func (b *Batch) Attach(message *apiv1.Change) {
	shown := Changed(message, b.At)
	i, is := b.latest[shown.key()]
	if !is {
		b.add(shown)
		return
	}
	e := &b.Entries[i]
	e.view, e.gone, e.about = shown.view, shown.gone, e.or(shown.about)
}
