package wire

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// Conversions of the small values in messages.

// DurationToProto returns nil for 0.
func DurationToProto(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// TimeToProto returns nil for the zero time.
func TimeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// TimeOf reads a time without checking it; nil and invalid times become the zero time.
func TimeOf(t *timestamppb.Timestamp) time.Time { return trusting().time("", t) }

// WindowToProto returns nil for no window.
func WindowToProto(window api.Window) *apiv1.Window {
	if window == (api.Window{}) {
		return nil
	}
	return &apiv1.Window{Start: TimeToProto(window.Start), Duration: DurationToProto(window.Duration)}
}

// WindowOf reads a window without checking it.
func WindowOf(m *apiv1.Window) api.Window {
	return api.Window{Start: TimeOf(m.GetStart()), Duration: m.GetDuration().AsDuration()}
}

// clean makes a text valid for protobuf, which refuses a whole message because of one byte that is not UTF-8.
func clean[S ~string](text S) string {
	if utf8.ValidString(string(text)) {
		return string(text)
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// Each converts the items of a list; nil: it has none.
func Each[From, To any](list []From, convert func(From) To) []To {
	if len(list) == 0 {
		return nil
	}
	all := make([]To, len(list))
	for i, item := range list {
		all[i] = convert(item)
	}
	return all
}

// eachKnown reads events, without those that this version does not know: of them read makes nil.
func eachKnown[M, Event any](messages []M, read func(M) Event) []Event {
	events := make([]Event, 0, len(messages))
	for _, m := range messages {
		if event := read(m); any(event) != nil {
			events = append(events, event)
		}
	}
	return events
}

// Texts converts identifiers to strings.
func Texts[S ~string](texts []S) []string { return Each(texts, clean[S]) }

// cleanMap returns the map itself if all of it is valid.
func cleanMap(words map[string]string) map[string]string {
	for name, word := range words { // order: irrelevant because any unfit word decides
		if !utf8.ValidString(name) || !utf8.ValidString(word) {
			return cleanedMap(words)
		}
	}
	return words
}

func cleanedMap(words map[string]string) map[string]string {
	fit := make(map[string]string, len(words))
	for name, word := range words { // order: irrelevant because a map is made
		fit[clean(name)] = clean(word)
	}
	return fit
}

// Names converts strings to identifiers without checking them.
func Names[S ~string](texts []string) []S {
	return typed[S](texts, func(text string) string { return text })
}

// typed converts strings to identifiers and checks each.
func typed[S ~string](texts []string, check func(string) string) []S {
	if len(texts) == 0 {
		return nil
	}
	all := make([]S, len(texts))
	for i, text := range texts {
		all[i] = S(check(text))
	}
	return all
}

// TermToProto makes the message of a term; nil for the zero term.
func TermToProto(term api.Term) *apiv1.Term {
	if term == (api.Term{}) {
		return nil
	}
	return &apiv1.Term{Epoch: term.Epoch, Number: term.Number}
}

// TermFromProto reads a term; absent is the zero term.
func TermFromProto(term *apiv1.Term) api.Term {
	return api.Term{Epoch: term.GetEpoch(), Number: term.GetNumber()}
}

// checkTerm refuses a batch of a master without a term, because nobody could tell whether to obey it (R1).
func checkTerm(op string, term api.Term) error {
	if term == (api.Term{}) {
		return api.E(op, api.Invalid, "", errors.New("a master's message carries no term"))
	}
	return nil
}
