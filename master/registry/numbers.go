package registry

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// Numbers is a range of numbers: from First up to, but not including, Next.
type Numbers struct{ First, Next uint64 }

// anewStep is by how much a registry that begins anew moves ahead of what it has counted.
const anewStep = 1 << 20

// BeginAnew makes this the registry of a cluster that may have counted on without it: it was restored from a snapshot,
// or what a lost majority had is missing. No number that may have been given out then is given out again (R37).
// Counting continues at the tenths of a second since 1970, so that a second restore of the same snapshot begins
// elsewhere. The numbers of agents and frameworks in between may belong to some that come back, and they keep them.
func (s *State) BeginAnew(at time.Time) {
	fresh := uint64(max(at.UnixMilli()/100, 0))
	s.LostAgents = beginAnew(&s.NextAgent, s.LostAgents, fresh)
	s.LostFrameworks = beginAnew(&s.NextFramework, s.LostFrameworks, fresh)
	s.NextVolume = max(s.NextVolume+anewStep, fresh)
	frameworks := writable(&s.Frameworks, &s.shared.frameworks)
	for id, framework := range frameworks { // order: irrelevant because each is changed alone
		framework.Session = max(framework.Session+anewStep, fresh)
		framework.Turn = framework.Session + 1 // whose turn it was is lost as well
		framework.StoreVersion = max(framework.StoreVersion+anewStep, fresh)
		frameworks[id] = framework
	}
}

func beginAnew(next *uint64, lost []Numbers, fresh uint64) []Numbers {
	first := max(*next, 1)
	*next = max(first+anewStep, fresh)
	return append(slices.Clone(lost), Numbers{first, *next})
}

// LostAgent reports whether an agent with this ID may have been admitted by a change that was lost.
func (s *State) LostAgent(id api.AgentID) bool {
	n, err := number(string(id), "agent")
	return err == nil && holds(s.LostAgents, n)
}

// takeNumber is called for the number of an ID that somebody brings along. It returns whether that number was given out
// to somebody who was removed.
func (s *State) takeNumber(next *uint64, lost *[]Numbers, n uint64) (taken bool) {
	switch {
	case n >= *next:
		if n > max(*next, 1) {
			*lost = append(slices.Clone(*lost), Numbers{max(*next, 1), n})
		}
		*next = n + 1
	case holds(*lost, n):
		*lost = without(*lost, n)
	default:
		return true
	}
	return false
}

func holds(list []Numbers, n uint64) bool {
	return slices.ContainsFunc(list, func(one Numbers) bool { return one.First <= n && n < one.Next })
}

func without(list []Numbers, n uint64) []Numbers {
	rest := make([]Numbers, 0, len(list)+1)
	for _, one := range list {
		if n < one.First || one.Next <= n {
			rest = append(rest, one)
			continue
		}
		if one.First < n {
			rest = append(rest, Numbers{one.First, n})
		}
		if n+1 < one.Next {
			rest = append(rest, Numbers{n + 1, one.Next})
		}
	}
	return rest
}

// number parses N in an identifier PREFIX-N that masters have given out.
func number(id, prefix string) (uint64, error) {
	digits, ok := strings.CutPrefix(id, prefix+"-")
	n, err := strconv.ParseUint(digits, 10, 48)
	if !ok || err != nil || n == 0 || strconv.FormatUint(n, 10) != digits {
		return 0, errors.New("masters mint identifiers like " + prefix + "-12")
	}
	return n, nil
}

// mint returns the next number.
func mint(next *uint64) string {
	n := max(*next, 1)
	*next = n + 1
	return strconv.FormatUint(n, 10)
}
