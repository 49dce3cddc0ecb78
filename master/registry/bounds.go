package registry

import (
	"errors"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// tooLarge refuses a change whose nouns are larger than masters store them (R34); nil if none is too large.
func (s *State) tooLarge(change Change) *Result {
	op, subject, err := "", "", error(nil)
	switch change := change.(type) {
	case SetMaster:
		op, subject, err = "master.set", string(change.ID), change.Master.checkSize()
	case AdmitAgent:
		op, subject = "agent.admit", change.Agent.Hostname
		err = errors.Join(change.Agent.CheckSize(), api.CheckText("the boot ID", change.BootID))
	case UpdateAgent:
		op, subject = "agent.update", string(change.Agent.ID)
		err = errors.Join(change.Agent.CheckSize(), api.CheckText("the boot ID", change.BootID))
	case MarkAgent:
		op, subject, err = "agent.mark", string(change.ID), api.CheckText("the reason", change.Why)
	case SetReserved:
		op, subject, err = "agent.reserve", string(change.ID), change.Reserved.CheckSize("what is reserved on the agent")
	case Subscribe:
		op, subject, err = "framework.subscribe", change.Framework.Name, change.Framework.CheckSize()
	case Readmit:
		op, subject, err = "framework.readmit", string(change.Framework.ID), change.Framework.CheckSize()
	case UpdateFramework:
		op, subject, err = "framework.update", string(change.Framework.ID), change.Framework.CheckSize()
	case RemoveFramework:
		op, subject, err = "framework.remove", string(change.ID), api.CheckText("the reason", change.Why)
	case SetRole:
		op, subject = "role.set", string(change.Role)
		err = errors.Join(change.Set.Guarantee.CheckSize("the guarantee"), change.Set.Limit.CheckSize("the limit"))
	case RevokePrincipal:
		op, subject, err = "principal.revoke", change.Principal, api.CheckText("the reason", change.Why)
	default: // these leave nothing of any size, or have bounds of their own
	}
	if err != nil {
		return &Result{Err: api.E(op, api.Limit, subject, err)}
	}
	return nil
}

// isBounded reports whether a principal may only take its share of what all frameworks store. In a cluster that
// identifies nobody, all frameworks have the empty principal, which has no bound of its own.
func isBounded(principal string) bool { return principal != "" }

// principalsShare returns how much of a bound for all one principal may take: three quarters, so that others have room.
func principalsShare(most int64) int64 { return most / 4 * 3 }

func (m Master) checkSize() error {
	return errors.Join(api.CheckText("the gRPC address", m.GRPC), api.CheckText("the HTTP address", m.HTTP), api.CheckText("the Raft address", m.Raft),
		api.CheckText("the version", m.Version), api.CheckText("the allocator", m.Allocator))
}

// noRoom refuses a change by which all nouns of a kind together would grow by so many bytes that they exceed their
// bound; nil if there is room.
func (s *State) noRoom(op, subject, nouns string, have, more, most int64) *Result {
	if more <= 0 || have+more <= most {
		return nil
	}
	return refusal(op, api.Limit, subject, "all %s together would take more than %d bytes of the registry; remove those that nobody needs", nouns, most)
}

func (a Agent) bytes() int64 {
	size := a.Agent.Bytes() + a.Reserved.Bytes() + len(a.Nonce) + len(a.BootID) + len(a.Why)
	for _, k := range a.Kills {
		size += 16 + len(k.Task.Framework) + len(k.Task.Task)
	}
	for _, v := range a.Volumes {
		size += 32 + len(v.Resource.Name) + len(v.Resource.Reserved) + len(v.Resource.Volume) + len(v.Resource.Tag)
	}
	return int64(size)
}

func (f Framework) bytes() int64 {
	size := f.Framework.Bytes() + len(f.Instance) + len(f.Why)
	return int64(size) + operationsBytes(f.Operations)
}

func operationsBytes(operations []Operation) int64 {
	size := 0
	for _, operation := range operations {
		size += 32 + len(operation.ID) + len(operation.Agent)
	}
	return int64(size)
}

func (r Role) bytes() int64 { return int64(64 + r.Guarantee.Bytes() + r.Limit.Bytes()) }

// kept returns a result in the size in which it is remembered.
func (s *State) kept(result Result) Result {
	if result.Err == nil {
		return result
	}
	short := *result.Err
	short.Subject = cut(short.Subject, SubjectBytesMax)
	if short.Err != nil {
		if text := short.Err.Error(); len(text) > api.TextBytesMax {
			short.Err = errors.New(cut(text, api.TextBytesMax))
		}
	}
	result.Err = &short
	return result
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// leavesNothing reports whether the result of a refused change need not be remembered for its client. The change did
// nothing, may be proposed again, and must leave nothing behind for somebody who names a framework that does not exist
// (R34).
func (s *State) leavesNothing(change Change, result Result) bool {
	if isKind(result, api.Fenced) {
		return true
	}
	switch change.(type) {
	case PutEntry, DeleteEntry:
		return isKind(result, api.NotFound) || isKind(result, api.Removed) || isKind(result, api.Invalid)
	default:
		return false
	}
}

// forgetInstance forgets the results of a scheduler that was replaced by another one. Whatever it still asks is refused
// as fenced.
func (s *State) forgetInstance(instance api.Nonce) {
	if instance == "" {
		return
	}
	for lane := range uint32(api.StoreLanesMax) {
		name := StoreClient(instance, lane)
		if _, known := s.Clients[name]; known {
			delete(writable(&s.Clients, &s.shared.clients), name)
		}
	}
}

// forgetGone enforces GoneAgentsMax.
func (s *State) forgetGone(at time.Time) {
	if s.index().gone <= GoneAgentsMax {
		return
	}
	gone := make(map[api.AgentID]time.Time, s.index().gone)
	for id, agent := range s.Agents { // order: irrelevant because it fills a map
		if agent.Marks.Has(api.MarkGone) {
			gone[id] = agent.Gone
		}
	}
	for _, id := range oldest(gone) {
		nonce := s.Agents[id].Nonce
		s.forgetAgent(id)
		s.bar(nonce, at)
	}
}
