package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/admission"
	"github.com/tenderhq/tender/master/registry"
)

// standbyPlace is the place of a framework whose name is its identity. Until then the last active instance may come back
// to it before others take it (R6).
type standbyPlace struct {
	place time.Time
	turn  *deadline // when it is given up
}

// seekSession opens the session at once, or lets a standby wait for its turn (R6).
func (r *sessions) seekSession(s *session) {
	fw := r.standbyOf(s)
	if fw != nil && !r.registry.MayTakeOver(fw.info.Principal, s.by.Who) {
		r.refuseSession(s, api.E("framework.subscribe", api.Denied, fw.id,
			fmt.Errorf("the name %q belongs to principal %q, not to %q", fw.info.Name, fw.info.Principal, s.by.Who)))
		return
	}
	if active := r.ahead(s, fw); active != "" {
		r.wait(s, active)
		return
	}
	if r.openSession(s) && s.subscribe.Framework.Standby {
		r.seekers[s.subscribe.Framework.Name] = s
	}
}

// standbyOf is the framework whose place the session wants, if names are its identity. The
// name goes before the ID, as in the registry.
func (r *sessions) standbyOf(s *session) *framework {
	wish := s.subscribe.Framework
	id := wish.ID
	if named := r.standbys[wish.Name]; named != "" && wish.Standby {
		id = named
	}
	if fw := r.frameworkByID[id]; fw != nil && fw.info.Standby && !fw.removed {
		return fw
	}
	return nil
}

// ahead is the instance that is active, or that may still come back to its place; "": the place is free.
func (r *sessions) ahead(s *session, fw *framework) api.Nonce {
	if other := r.seekers[s.subscribe.Framework.Name]; other != nil && other != s && s.subscribe.Framework.Standby {
		return other.subscribe.Instance
	}
	if fw == nil {
		return ""
	}
	last := r.registry.Frameworks[fw.id].Instance
	if last == s.subscribe.Instance || last == "" {
		return ""
	}
	if fw.session != nil || r.now.Before(fw.place) {
		return last
	}
	return ""
}

// wait queues a standby; it is told once.
func (r *sessions) wait(s *session, active api.Nonce) {
	if !slices.Contains(r.waiting, s) {
		r.waiting = append(r.waiting, s)
	}
	if !s.waiting {
		s.waiting = true
		r.info("standby waits", field("name", s.subscribe.Framework.Name), field("instance", s.subscribe.Instance), field("active", active))
		r.emit(ToScheduler{Conn: s.conn, Event: protocol.Waiting{ActiveInstance: active}})
	}
}

func (r *sessions) stopWaiting(s *session) {
	r.waiting = slices.DeleteFunc(r.waiting, func(other *session) bool { return other == s })
}

// seekDone notes that the registry has answered the proposal of a standby.
func (r *sessions) seekDone(s *session) {
	if name := s.subscribe.Framework.Name; r.seekers[name] == s {
		delete(r.seekers, name)
	}
}

// keepPlace keeps the place of an instance that was seen last at that time.
func (r *sessions) keepPlace(fw *framework, seen time.Time) {
	if !fw.info.Standby || fw.removed {
		return
	}
	fw.place = seen.Add(r.config.SessionTimeout)
	r.deadlines.Set(fw.turn, fw.place)
}

// nextStandby gives a free place to the one that waits longest.
func (r *sessions) nextStandby(name string) {
	for _, s := range r.waiting {
		if s.subscribe.Framework.Name == name {
			r.stopWaiting(s)
			r.seekSession(s)
			return
		}
	}
}

// identity is the same for all sessions that want to be one framework.
func (s *session) identity() string {
	if id := s.subscribe.Framework.ID; id != "" {
		return "framework " + string(id)
	}
	return "instance " + string(s.subscribe.Instance)
}

// openSession asks the registry, when it is the session's turn, to admit the framework or to take
// it over (R5); false when the session was refused.
func (r *sessions) openSession(s *session) bool {
	if !r.lines.Wait(s.identity(), s) {
		r.refuseSession(s, api.E("framework.subscribe", api.Limit, nameForPeople(s.subscribe.Framework),
			fmt.Errorf("%d sessions of it wait for the quorum already; close them, or wait for their answers", admission.LineMax)).RetryIn(admission.LineRetry))
		return false
	}
	r.askForSessions()
	return true
}

func (r *sessions) askForSessions() {
	for s, is := r.lines.Next(); is; s, is = r.lines.Next() {
		change := registry.Subscribe{Framework: s.subscribe.Framework, Instance: s.subscribe.Instance}
		r.proposals.propose(change, openSession{s, s.identity()})
	}
}

// subscribeAnswered goes on when the registry has answered.
func (r *sessions) subscribeAnswered(o openSession, result registry.Result) {
	r.lines.Answered(o.identity)
	r.subscribed(o.session, result)
	r.askForSessions()
}

// leaveLine takes out a session that has ended. If it was a standby that had never asked the registry, the next one in
// its line may ask.
func (r *sessions) leaveLine(s *session) {
	if r.lines.Leave(s.identity(), s) {
		r.seekDone(s)
		r.nextStandby(s.subscribe.Framework.Name)
	}
}
