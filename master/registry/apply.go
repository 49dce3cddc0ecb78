package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// Apply changes the state by one command and returns its result. It never panics. A command that its client has
// proposed before gets the same result again (R17).
func (s *State) Apply(command Command) Result {
	last, known := s.Clients[command.Client]
	switch {
	case command.Client == "": // nobody will ask for the result again
		return s.change(command.Change, command.At.Round(0).UTC())
	case known && command.Counter == last.Counter:
		return last.Result
	case known && command.Counter < last.Counter:
		return refuse("registry.apply", api.Stale, command.Client,
			"number %d is behind this client's last one, %d, and its result is no longer kept", command.Counter, last.Counter)
	}
	at := command.At.Round(0).UTC()
	if len(command.Client) > ClientBytesMax {
		return refuse("registry.apply", api.Limit, cut(command.Client, SubjectBytesMax), "the proposer's name has %d bytes, at most %d are allowed",
			len(command.Client), ClientBytesMax)
	}
	result := s.kept(s.change(command.Change, at))
	if !s.leavesNothing(command.Change, result) {
		writable(&s.Clients, &s.shared.clients)[command.Client] = Client{command.Counter, result, at}
		s.forgetClients()
	}
	return result
}

func isKind(result Result, kind api.Kind) bool { return result.Err != nil && result.Err.Kind == kind }

func (s *State) change(change Change, at time.Time) Result {
	if change == nil {
		return refuse("registry.apply", api.Unsupported, "", "the command has no change")
	}
	if bad := s.tooLarge(change); bad != nil {
		return *bad
	}
	if bad := change.saw().changed(s); bad != nil {
		return *bad
	}
	return change.apply(s, at)
}

// refuse returns the result of a command that is refused.
func refuse[S ~string](op string, kind api.Kind, subject S, format string, args ...any) Result {
	return Result{Err: api.E(op, kind, subject, fmt.Errorf(format, args...))}
}

// refusal is refuse for those who return nil when nothing is to be refused.
func refusal[S ~string](op string, kind api.Kind, subject S, format string, args ...any) *Result {
	bad := refuse(op, kind, subject, format, args...)
	return &bad
}

// refuseID returns the refusal of a command with an invalid identifier; nil if it is valid.
func refuseID(op, noun, id string) *Result {
	if err := api.CheckID(noun, id); err != nil {
		return &Result{Err: api.E(op, api.Invalid, id, err)}
	}
	return nil
}

// oldest returns the tenth of the keys with the earliest times, at least one.
func oldest[K ~string](times map[K]time.Time) []K {
	keys := make([]K, 0, len(times))
	for key := range times { // order: irrelevant because they are sorted below
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b K) int {
		if order := times[a].Compare(times[b]); order != 0 {
			return order
		}
		return strings.Compare(string(a), string(b))
	})
	return keys[:min(len(keys), len(keys)/10+1)]
}
