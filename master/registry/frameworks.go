package registry

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// Subscribe admits a framework or takes it over; either raises the session (R5). Without an ID, a known instance gets
// the ID that it has (R7). With Standby, a known name of the same principal gets the ID that it has (R6).
type Subscribe struct {
	Framework api.Framework
	Instance  api.Nonce
}

func (change Subscribe) apply(s *State, at time.Time) Result {
	const op = "framework.subscribe"
	wish := change.Framework
	if bad := refuseID(op, "instance", string(change.Instance)); bad != nil {
		return *bad
	}
	id, bad := s.identify(wish, change.Instance)
	if bad != nil {
		return *bad
	}
	// Holds: an instance belongs to one framework, so that the index of instances is unambiguous.
	if other, known := s.index().instanceOf[change.Instance]; known && other != id {
		return refuse(op, api.Exists, other, "this instance is its scheduler already; each framework needs an instance of its own")
	}
	if id == "" {
		return s.admitFramework(wish, change.Instance, at)
	}
	old := s.Frameworks[id]
	switch {
	case !old.Removed.IsZero():
		return refuse(op, api.Removed, id, "it was removed at %s: %s", old.Removed.Format(time.RFC3339), old.Why)
	case !MayTakeOver(old.Framework.Principal, wish.Principal):
		return refuse(op, api.Denied, id, "it belongs to principal %q, not to %q", old.Framework.Principal, wish.Principal)
	}
	was := old.Instance
	old.Session++
	if was != change.Instance {
		old.Turn = old.Session
	}
	if old.Framework.Principal == "" {
		old.Framework.Principal = wish.Principal
	}
	old.Framework = keepIdentity(wish, old.Framework)
	old.Instance = change.Instance
	if bad := s.noRoomForFramework(op, old); bad != nil {
		return *bad
	}
	s.replace(old)
	if was != change.Instance {
		s.forgetInstance(was)
	}
	return Result{Framework: id, Session: old.Session}
}

func (Subscribe) saw() sight {
	return blind("whoever subscribes last takes over, and gets a session above all others (R5)")
}

// identify returns which framework a subscription means: the one that it names, the one that its instance got before
// (R7), or with Standby the one with its name (R6). "" means a new one.
func (s *State) identify(wish api.Framework, instance api.Nonce) (api.FrameworkID, *Result) {
	named := s.index().standby[wish.Name]
	if !wish.Standby {
		named = ""
	}
	if wish.ID != "" {
		known, ok := s.Frameworks[wish.ID]
		switch {
		case !ok:
			return named, s.takeFrameworkNumber(wish.ID)
		case named != "" && known.Removed.IsZero():
			return named, nil // in a restored registry the name may belong to another framework by now
		}
		return wish.ID, nil
	}
	if id, known := s.index().instanceOf[instance]; known {
		return id, nil
	}
	return named, nil
}

// takeFrameworkNumber lets a framework keep an ID that this registry never gave out, because it was restored from an
// older snapshot.
func (s *State) takeFrameworkNumber(id api.FrameworkID) *Result {
	n, err := number(string(id), "framework")
	if err != nil {
		return &Result{Err: api.E("framework.subscribe", api.Invalid, id, err)}
	}
	if n < s.NextFramework && !holds(s.LostFrameworks, n) {
		return refusal("framework.subscribe", api.Removed, id, "it was removed, longer ago than is remembered")
	}
	return nil
}

func (s *State) admitFramework(wish api.Framework, instance api.Nonce, at time.Time) Result {
	const op = "framework.admit"
	if wish.Standby && wish.Name == "" {
		return refuse(op, api.Invalid, wish.ID, "with Standby the name is the identity; it must not be empty")
	}
	if len(s.Frameworks)-s.index().tombstones >= FrameworksMax {
		return refuse(op, api.Limit, wish.Name, "%d frameworks are admitted; remove some first", FrameworksMax)
	}
	if s.index().living[wish.Principal].frameworks >= FrameworksPerPrincipalMax {
		return refuse(op, api.Limit, wish.Name, "%d frameworks of principal %q are admitted; remove some first", FrameworksPerPrincipalMax, wish.Principal)
	}
	if bad := s.noRoomForFramework(op, Framework{Framework: wish, Instance: instance}); bad != nil {
		return *bad
	}
	if other, taken := s.index().standby[wish.Name]; wish.Standby && taken {
		return refuse(op, api.Exists, other, "it stands under the name %q already", wish.Name)
	}
	before := uint64(0)
	if wish.ID == "" {
		wish.ID = api.FrameworkID("framework-" + mint(&s.NextFramework))
	} else if n, err := number(string(wish.ID), "framework"); err != nil {
		return Result{Err: api.E(op, api.Invalid, wish.ID, err)}
	} else if len(s.LostFrameworks) >= LostNumbersMax {
		return refuse(op, api.Limit, wish.ID, "%d ranges of lost numbers are remembered", LostNumbersMax)
	} else {
		// A forgotten framework is taken back (R21).
		s.takeNumber(&s.NextFramework, &s.LostFrameworks, n)
		before = s.Epoch * anewStep // sessions that it may have had, as its ID was given out by a change that was lost
	}
	s.replace(Framework{Framework: wish, Instance: instance, Session: before + 1, Turn: before + 1, Admitted: at, StoreVersion: before})
	return Result{Framework: wish.ID, Session: before + 1}
}

// Readmit admits a framework as an agent describes it (R21).
type Readmit struct{ Framework api.Framework }

// apply admits the framework. A known one stays as it is. If its name belongs to another framework by now, it is
// readmitted without Standby, so that its tasks continue for its failover time (R21).
func (change Readmit) apply(s *State, at time.Time) Result {
	id := change.Framework.ID
	old, known := s.Frameworks[id]
	switch {
	case !known && id == "":
		return refuse("framework.readmit", api.Invalid, id, "it has no ID")
	case !known:
		wish := change.Framework
		if s.index().standby[wish.Name] != "" {
			wish.Standby = false
		}
		return s.admitFramework(wish, "", at)
	case !old.Removed.IsZero():
		return refuse("framework.readmit", api.Removed, id, "it was removed at %s: %s", old.Removed.Format(time.RFC3339), old.Why)
	}
	return Result{Framework: id, Session: old.Session}
}

func (Readmit) saw() sight { return blind("a framework that is known stays as it is (R21)") }

// UpdateFramework replaces what Subscribe said, except the identity, if the session is current.
type UpdateFramework struct {
	Framework api.Framework
	Session   uint64
}

func (change UpdateFramework) apply(s *State, _ time.Time) Result {
	old, bad := s.framework("framework.update", change.Framework.ID, change.Session)
	if bad != nil {
		return *bad
	}
	old.Framework = keepIdentity(change.Framework, old.Framework)
	if bad := s.noRoomForFramework("framework.update", old); bad != nil {
		return *bad
	}
	s.replace(old)
	return Result{Framework: old.Framework.ID, Session: old.Session}
}

func (change UpdateFramework) saw() sight {
	return sawSession{"framework.update", change.Framework.ID, change.Session}
}

func (s *State) noRoomForFramework(op string, now Framework) *Result {
	more := now.bytes()
	if was, known := s.Frameworks[now.Framework.ID]; known {
		more -= was.bytes()
	}
	if bad := s.noRoom(op, now.Framework.Name, "frameworks", s.index().frameworkBytes, more, FrameworksBytesMax); bad != nil {
		return bad
	}
	most := principalsShare(FrameworksBytesMax)
	if has := s.index().living[now.Framework.Principal].bytes; more > 0 && isBounded(now.Framework.Principal) && has+more > most {
		return refusal(op, api.Limit, now.Framework.Name, "what the frameworks of principal %q say of themselves, as by labels, has %d bytes, "+
			"and may have %d; remove those that nobody needs", now.Framework.Principal, has, most)
	}
	return nil
}

// MayTakeOver reports whether a scheduler of a principal may take over a framework of an owner: only its own
// principal's, except that either of the two may be empty. So a framework without a principal belongs to the first
// principal that takes it over, and a caller without a principal, in a cluster that identifies nobody, may take over
// any framework. (Protocol rule R6.)
func MayTakeOver(owner, principal string) bool {
	return owner == principal || owner == "" || principal == ""
}

// keepIdentity returns the framework's new description with its old identity.
func keepIdentity(now, was api.Framework) api.Framework {
	now.ID, now.Name, now.Principal, now.Standby = was.ID, was.Name, was.Principal, was.Standby
	return now
}

// RemoveFramework turns a framework into a tombstone, if its session is still the one that the proposer saw.
type RemoveFramework struct {
	ID      api.FrameworkID
	Session uint64 // or Whatever
	Why     string
}

// apply leaves a tombstone, which is enough to refuse the identity and to say why.
func (change RemoveFramework) apply(s *State, at time.Time) Result {
	const op = "framework.remove"
	old, known := s.Frameworks[change.ID]
	switch {
	case !known:
		return refuse(op, api.NotFound, change.ID, "no such framework")
	case !old.Removed.IsZero():
		return refuse(op, api.Removed, change.ID, "it was removed at %s: %s", old.Removed.Format(time.RFC3339), old.Why)
	}
	was := old.Framework
	if rolesBytes(was.Roles) > TombstoneRolesBytesMax {
		was.Roles = nil
	}
	s.replace(Framework{
		Framework: api.Framework{ID: was.ID, Name: was.Name, Principal: was.Principal, Roles: was.Roles, Standby: was.Standby},
		Instance:  old.Instance,
		Session:   old.Session,
		Turn:      old.Turn,
		Admitted:  old.Admitted,
		Removed:   at,
		Why:       change.Why,
	})
	s.forgetInstance(old.Instance)
	s.forgetTombstones()
	return Result{Framework: change.ID, Session: old.Session}
}

func (change RemoveFramework) saw() sight {
	return sawScheduler{"framework.remove", change.ID, change.Session}
}

func rolesBytes(roles []api.Role) int {
	size := 0
	for _, role := range roles {
		size += len(role)
	}
	return size
}

// framework returns a framework that is not removed, if the session is its current one.
func (s *State) framework(op string, id api.FrameworkID, session uint64) (Framework, *Result) {
	old, known := s.Frameworks[id]
	switch {
	case !known:
		return old, refusal(op, api.NotFound, id, "no such framework")
	case !old.Removed.IsZero():
		return old, refusal(op, api.Removed, id, "it was removed at %s: %s", old.Removed.Format(time.RFC3339), old.Why)
	case session > old.Session:
		return old, refusal(op, api.Invalid, id, "session %d was never given; the current one is %d", session, old.Session)
	case session < old.Session:
		return old, refusal(op, api.Fenced, id, "session %d is over; session %d has taken its place", session, old.Session)
	}
	return old, nil
}

// forgetTombstones enforces TombstonesMax.
func (s *State) forgetTombstones() {
	if s.index().tombstones <= TombstonesMax {
		return
	}
	removed := make(map[api.FrameworkID]time.Time, s.index().tombstones)
	for id, framework := range s.Frameworks { // order: irrelevant because it fills a map
		if !framework.Removed.IsZero() {
			removed[id] = framework.Removed
		}
	}
	s.forget(oldest(removed))
}

func (s *State) forget(ids []api.FrameworkID) {
	frameworks := writable(&s.Frameworks, &s.shared.frameworks)
	for _, id := range ids {
		s.index().drop(frameworks[id])
		delete(frameworks, id)
	}
}

// Expire forgets what has not been seen since Before.
type Expire struct{ Before time.Time }

// apply forgets clients, tombstones, gone agents and revoked principals from before that time.
func (change Expire) apply(s *State, _ time.Time) Result {
	var ids []api.FrameworkID
	for id, framework := range s.Frameworks {
		if !framework.Removed.IsZero() && framework.Removed.Before(change.Before) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	s.forget(ids)
	s.expireGone(change)
	s.expirePrincipals(change)
	s.expireClients(change)
	return Result{}
}

func (Expire) saw() sight {
	return blind("only the registry's own times are compared with the one that it names")
}

// expireGone forgets agents that were marked gone long ago. If one comes back after all, it is refused because of its
// number, like one that was removed (R16).
func (s *State) expireGone(change Expire) {
	for _, id := range slices.Sorted(maps.Keys(s.Agents)) {
		if agent := s.Agents[id]; agent.Marks.Has(api.MarkGone) && agent.Gone.Before(change.Before) {
			s.forgetAgent(id)
		}
	}
}

func (s *State) expireClients(change Expire) {
	clients := writable(&s.Clients, &s.shared.clients)
	for name, client := range clients { // order: irrelevant because each is judged alone
		if client.Seen.Before(change.Before) {
			delete(clients, name)
		}
	}
}

// forgetClients enforces ClientsMax.
func (s *State) forgetClients() {
	if len(s.Clients) <= ClientsMax {
		return
	}
	seen := make(map[string]time.Time, len(s.Clients))
	for name, client := range s.Clients { // order: irrelevant because it fills a map
		seen[name] = client.Seen
	}
	clients := writable(&s.Clients, &s.shared.clients)
	for _, name := range oldest(seen) {
		delete(clients, name)
	}
}
