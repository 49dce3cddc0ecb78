package names

import (
	"net"
	"sync"
	"time"

	"github.com/tenderhq/tender/internal/allowance"
)

const (
	// sourceBytesPerSecond is how many bytes of answers a source gets over UDP in a second, and sourceBytesMax how many
	// it may have saved up. Beyond that its answers are empty and say that they are truncated, so that they are no longer
	// than the question: whoever forges the address of somebody else can't bury it in answers, and an honest resolver
	// asks again over TCP.
	sourceBytesPerSecond = 128 << 10
	sourceBytesMax       = 512 << 10
	// sourcesMax is how many sources are remembered. If more ask at a time, all others share one allowance.
	sourcesMax = 4096
)

// sources limits the bytes that are sent over UDP to each address; for IPv6 to each /64 network.
type sources struct {
	mu     sync.Mutex
	known  map[string]*allowance.Allowance // guarded by mu
	others allowance.Allowance             // of those that found no room in known; guarded by mu
	swept  time.Time                       // when it was looked which can be forgotten; guarded by mu
}

var sourceRate = allowance.Rate{PerSecond: sourceBytesPerSecond, Most: sourceBytesMax, First: sourceBytesMax}

func newSources() *sources {
	return &sources{known: make(map[string]*allowance.Allowance), others: allowance.New(sourceRate, time.Now())}
}

// hasLeft reports whether the source may be sent an answer.
func (s *sources) hasLeft(from net.Addr) bool { return s.take(from, 0) == 0 }

// take uses up bytes, and returns how long it takes until the source owes nothing.
func (s *sources) take(from net.Addr, bytes int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return s.of(allowance.SourceOf(from), now).Take(now, float64(bytes))
}

// of returns the allowance of a source. If there is no room, it first forgets the sources whose allowances are full, but
// looks for these once a second at most.
func (s *sources) of(source string, now time.Time) *allowance.Allowance {
	if its, is := s.known[source]; is {
		return its
	}
	if len(s.known) >= sourcesMax && now.Sub(s.swept) >= time.Second {
		s.swept = now
		for name, its := range s.known { // order: irrelevant because each is looked at by itself
			if its.Full(now) {
				delete(s.known, name)
			}
		}
	}
	if len(s.known) >= sourcesMax {
		return &s.others
	}
	its := allowance.New(sourceRate, now)
	s.known[source] = &its
	return &its
}
