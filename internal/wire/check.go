package wire

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// checker remembers the first error that is found while a message is read. A lenient one finds no errors.
type checker struct {
	lenient bool
	kind    api.Kind
	err     error
}

// trusting returns a checker that finds no errors.
func trusting() *checker { return &checker{lenient: true} }

func (c *checker) fail(format string, args ...any) {
	c.failKind(api.Invalid, format, args...)
}

func (c *checker) failKind(kind api.Kind, format string, args ...any) {
	if !c.lenient && c.err == nil {
		c.kind, c.err = kind, fmt.Errorf(format, args...)
	}
}

// refusal returns the error that was found, as that of the operation, or nil.
func (c *checker) refusal(op, subject string) *api.Error {
	if c.err == nil {
		return nil
	}
	return api.E(op, c.kind, subject, c.err)
}

// error is refusal with the type error, so that nil stays nil.
func (c *checker) error(op, subject string) error {
	if err := c.refusal(op, subject); err != nil {
		return err
	}
	return nil
}

// id checks an identifier that must be there.
func (c *checker) id(noun, id string) string {
	if !c.lenient && c.err == nil {
		if err := api.CheckID(noun, id); err != nil {
			c.fail("%w", err)
		}
	}
	return id
}

// optionalID checks an identifier that may be empty.
func (c *checker) optionalID(noun, id string) string {
	if id == "" {
		return ""
	}
	return c.id(noun, id)
}

func (c *checker) role(name string) api.Role {
	role := api.Role(name)
	if !c.lenient && c.err == nil {
		if err := role.Check(); err != nil {
			c.fail("%w", err)
		}
	}
	return role
}

func (c *checker) optionalRole(name string) api.Role {
	if name == "" {
		return ""
	}
	return c.role(name)
}

// text checks a short text for people: one line of at most api.IDBytesMax bytes.
func (c *checker) text(noun, text string) string {
	switch {
	case c.lenient:
	case len(text) > api.IDBytesMax:
		c.fail("%s has %d bytes, at most %d are allowed", noun, len(text), api.IDBytesMax)
	case strings.ContainsFunc(text, unicode.IsControl):
		c.fail("%s %q holds a control character; write one line of text", noun, text)
	}
	return text
}

// words checks maps of texts, such as labels and attributes.
func (c *checker) words(noun string, words map[string]string) map[string]string {
	if len(words) == 0 {
		return nil
	}
	if len(words) > api.LabelsMax {
		c.fail("%d %s, at most %d are allowed", len(words), noun, api.LabelsMax)
	}
	if _, empty := words[""]; empty {
		c.fail("%s: a name is empty", noun)
	}
	return words
}

// size takes the error of a noun's own check of its size (R34).
func (c *checker) size(err error) {
	if err != nil {
		c.failKind(api.Limit, "%w", err)
	}
}

// count checks the length of a list.
func (c *checker) count(noun string, n, limit int) {
	if n > limit {
		c.failKind(api.Limit, "%d %s, at most %d are allowed in one message", n, noun, limit)
	}
}

// listed refuses a call that lists too much, before the lists are read.
func (c *checker) listed(noun string, n int) bool {
	if n > api.ItemsPerCallMax {
		c.fail("%d %s in one call, at most %d are allowed", n, noun, api.ItemsPerCallMax)
	}
	return c.lenient || n <= api.ItemsPerCallMax
}

// duration reads a duration that may not be negative; absent is 0.
func (c *checker) duration(noun string, d *durationpb.Duration) time.Duration {
	value := c.signedDuration(noun, d)
	if value < 0 {
		c.fail("%s is %v; it must not be negative", noun, value)
	}
	return value
}

func (c *checker) signedDuration(noun string, d *durationpb.Duration) time.Duration {
	if d == nil {
		return 0
	}
	value := d.AsDuration() // it saturates
	if value > api.DurationMax || value < -api.DurationMax {
		c.fail("%s is %v; at most %v is allowed", noun, value, api.DurationMax)
	}
	return value
}

// Span reads the times between which a request asks for the past; absent ones are zero.
func Span(op string, since, until *timestamppb.Timestamp) (from, to time.Time, err error) {
	for _, end := range []struct {
		name string
		at   *timestamppb.Timestamp
		into *time.Time
	}{{"since", since, &from}, {"until", until, &to}} {
		c := checker{}
		*end.into = c.time(end.name, end.at)
		if refusal := c.refusal(op, end.name); refusal != nil {
			return from, to, refusal
		}
	}
	return from, to, nil
}

// time reads a time; absent is the zero time.
func (c *checker) time(noun string, t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	if err := t.CheckValid(); err != nil {
		c.fail("%s is no moment between the years 1 and 9999", noun)
		return time.Time{}
	}
	return t.AsTime()
}

func (c *checker) amount(noun string, milli int64) api.Milli {
	switch amount := api.Milli(milli); {
	case amount < 0:
		c.fail("%s is %v; it must not be negative", noun, amount)
	case amount > api.MilliMax:
		c.fail("%s is %v; at most %v is allowed", noun, amount, api.MilliMax)
	}
	return api.Milli(milli)
}

// known reports whether this version has a name for the value. names is the generated map.
func known[E ~int32](value E, names map[int32]string) bool {
	_, is := names[int32(value)]
	return is
}

func (c *checker) taskState(state apiv1.TaskState) api.TaskState {
	if state == apiv1.TaskState_TASK_STATE_UNSPECIFIED || !known(state, apiv1.TaskState_name) {
		c.fail("task state %d is unknown", state)
		return api.TaskUnspecified
	}
	return api.TaskState(state)
}

func (c *checker) reason(reason apiv1.Reason) api.Reason {
	if !known(reason, apiv1.Reason_name) {
		c.fail("reason %d is unknown", reason)
		return api.ReasonNone
	}
	return api.Reason(reason)
}

// cut shortens a text to at most limit bytes, between characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

func (c *checker) ids(noun string) func(string) string {
	return func(id string) string { return c.id(noun, id) }
}

func (c *checker) roles(names []string) []api.Role {
	c.count("roles", len(names), api.RolesPerFrameworkMax)
	return typed[api.Role](names, func(name string) string { return string(c.role(name)) })
}
