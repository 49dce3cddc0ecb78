package api

import (
	"errors"
	"strings"
	"time"
)

// Kind classifies an error; callers switch on it. Kinds are stable across the wire and between versions.
type Kind uint8

// The kinds of errors.
const (
	// Internal: our own mistake; the message helps us, not the caller.
	Internal Kind = iota
	// Invalid: the request can't be right, whenever it is sent.
	Invalid
	// NotFound: the subject does not exist.
	NotFound
	// Exists: the subject exists already, or another owns it.
	Exists
	// Stale: the subject was right once: an offer that is gone, an older version, term or session.
	Stale
	// Denied: the caller may not do this.
	Denied
	// Limit: a documented limit is reached.
	Limit
	// Unavailable: nobody can do it just now; try again.
	Unavailable
	// NotLeader: another master leads; the message or detail names it.
	NotLeader
	// Fenced: a newer instance of the same framework has taken over.
	Fenced
	// Removed: the framework or agent was removed; its identity will not be used again.
	Removed
	// Unknown: the outcome is unknown: it may have happened or may still happen.
	Unknown
	// Unsupported: this version, platform or allocator can't do it.
	Unsupported
)

var kindNames = [...]string{
	"internal", "invalid", "not found", "exists", "stale", "denied", "limit", "unavailable", "not leader",
	"fenced", "removed", "unknown outcome", "unsupported",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "internal"
}

// Error is an error with its operation, kind, subject and cause. Make one with [E].
type Error struct {
	Op      string // what was attempted, "offer.accept"
	Kind    Kind   // what callers switch on
	Subject string // what it was about: an identifier, an address, a flag
	Err     error  // the cause, or nil
}

// E makes an error. Subject may be any identifier, or "". When err is an *Error
// itself, the message does not repeat what both have in common.
func E[S ~string](op string, kind Kind, subject S, err error) *Error {
	return &Error{Op: op, Kind: kind, Subject: string(subject), Err: err}
}

// healing wraps a cause that goes away after a time, so that the call may be tried again then.
type healing struct {
	after time.Duration
	error // or nil
}

func (h healing) Unwrap() error { return h.error }

func (h healing) Error() string {
	if h.error == nil {
		return ""
	}
	return h.error.Error()
}

// RetryIn makes the error say that the same call may succeed later, and that nobody is to repeat it before this time
// has passed; see [RetryAfter]. A wait of zero or less changes nothing.
func (e *Error) RetryIn(wait time.Duration) *Error {
	if wait > 0 {
		e.Err = healing{wait, e.Err}
	}
	return e
}

// Error reads "offer.accept: offer-7-42: stale: the agent went away".
func (e *Error) Error() string { return strings.Join(e.parts(&Error{}), ": ") }

// parts lists what Error joins. It leaves out the operation, subject and kind that would only repeat what the error
// around e, or the cause inside it, says anyway.
func (e *Error) parts(around *Error) []string {
	parts := make([]string, 0, 4)
	add := func(part string) {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if e.Op != around.Op {
		add(e.Op)
	}
	if e.Subject != around.Subject {
		add(e.Subject)
	}
	var inner *Error
	if !errors.As(e.Err, &inner) || inner.Kind != e.Kind {
		add(e.Kind.String())
	}
	if direct := directly(e.Err); direct != nil {
		return append(parts, direct.parts(e)...)
	}
	if e.Err != nil {
		add(e.Err.Error())
	}
	return parts
}

// directly returns err itself as an *Error. It returns nil when err is another kind of error, also one that only wraps
// an *Error: such an error has its own text.
func directly(err error) *Error {
	if h, heals := err.(healing); heals { //nolint:errorlint // only what was made by RetryIn, which has no words
		err = h.error
	}
	e, _ := err.(*Error) //nolint:errorlint // only the direct cause
	return e
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of err: that of the outermost [Error] in its chain, and
// Internal for any other error.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// RetryAfter returns how long the caller must wait before it repeats what was refused with err; zero when err does not
// say that waiting helps. The SDK's own calls wait that long and try again. An error of kind [Limit] without such a
// time stays true until something is changed.
func RetryAfter(err error) time.Duration {
	var h healing
	errors.As(err, &h)
	return h.after
}

// Transient reports whether the call that ended with err may succeed later though nobody changes anything: nobody can do
// it just now ([Unavailable]), the master that was asked does not lead ([NotLeader]), the outcome is unknown ([Unknown];
// repeat it only if a second time does no harm), or err says when to come back ([RetryAfter]). The list is closed.
// Whatever ends with another error would end so again: tell it or set it aside, and don't repeat it.
func Transient(err error) bool {
	switch {
	case err == nil:
		return false
	case RetryAfter(err) > 0:
		return true
	}
	switch KindOf(err) {
	case Unavailable, NotLeader, Unknown:
		return true
	}
	return false
}

// Is reports whether err is of the kind; false for nil.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }
