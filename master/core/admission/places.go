package admission

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// Places keeps track of the frameworks whose name is their identity. One instance of each is active; others stand by,
// in the order in which they came. (Protocol rule R6.)
type Places[Session comparable] struct {
	frameworks map[string]api.FrameworkID // frameworks that are not removed, by name
	seekers    map[string]Session         // the session that has asked the registry for the place, by name
	waiting    []standby[Session]         // in order of arrival
}

type standby[Session comparable] struct {
	name    string
	session Session
}

// NewPlaces returns places without any framework.
func NewPlaces[Session comparable]() Places[Session] {
	return Places[Session]{frameworks: make(map[string]api.FrameworkID), seekers: make(map[string]Session)}
}

// Of returns the framework that has the name, or "" when none has it.
func (p *Places[Session]) Of(name string) api.FrameworkID { return p.frameworks[name] }

// Give gives a framework the name.
func (p *Places[Session]) Give(name string, id api.FrameworkID) { p.frameworks[name] = id }

// TakeBack takes the name back, if the framework has it.
func (p *Places[Session]) TakeBack(name string, id api.FrameworkID) {
	if p.frameworks[name] == id {
		delete(p.frameworks, name)
	}
}

// Seek notes that a session asks the registry for the place with this name.
func (p *Places[Session]) Seek(name string, s Session) { p.seekers[name] = s }

// Seeker returns the session that is asking the registry for the place with this name; false when none is.
func (p *Places[Session]) Seeker(name string) (seeker Session, is bool) {
	seeker, is = p.seekers[name]
	return seeker, is
}

// SeekDone notes that the registry has answered the session, if it was the one that asked.
func (p *Places[Session]) SeekDone(name string, s Session) {
	if seeker, is := p.seekers[name]; is && seeker == s {
		delete(p.seekers, name)
	}
}

// Wait notes that a session stands by for the name, unless it does so already.
func (p *Places[Session]) Wait(name string, s Session) {
	if one := (standby[Session]{name, s}); !slices.Contains(p.waiting, one) {
		p.waiting = append(p.waiting, one)
	}
}

// StopWaiting removes a session from those that stand by.
func (p *Places[Session]) StopWaiting(s Session) {
	p.waiting = slices.DeleteFunc(p.waiting, func(one standby[Session]) bool { return one.session == s })
}

// Next removes and returns the session that has stood by for the name longest; false when there is none.
func (p *Places[Session]) Next(name string) (next Session, is bool) {
	at := slices.IndexFunc(p.waiting, func(one standby[Session]) bool { return one.name == name })
	if at < 0 {
		return next, false
	}
	next = p.waiting[at].session
	p.waiting = slices.Delete(p.waiting, at, at+1)
	return next, true
}
