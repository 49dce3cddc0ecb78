package raftlog

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
)

// Missing says, while nobody leads, which masters answer and how many are needed; ""
// while somebody leads, and when enough of them answer or nobody has looked yet.
func (l *Log) Missing() string {
	if r := l.running(); r != nil {
		if addr, _ := r.LeaderWithID(); addr != "" {
			return ""
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missing
}

func (l *Log) miss(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missing != what && what != "" {
		l.config.Logger.Warn().Str("why", what).Msg("nobody leads")
	}
	l.missing = what
}

// askAll asks all other members at once who they are; those that are silent are not in
// the answer.
func (l *Log) askAll(all []member) map[api.MasterID]about { return l.askEach(all, l.network.askMember) }

func (l *Log) askEach(all []member, ask func(peer Peer, timeout time.Duration) (about, error)) map[api.MasterID]about {
	var mu sync.Mutex
	answers := make(map[api.MasterID]about)
	var asking sync.WaitGroup
	for _, peer := range all {
		if peer.ID == l.ID() {
			continue
		}
		asking.Go(func() {
			if answer, err := ask(peer.Peer, timings[l.config.Profile].election); err == nil && answer.ID == peer.ID {
				mu.Lock()
				answers[peer.ID] = answer
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return answers
}

// missing counts the voters, ourselves included.
func missing(all []member, answers map[api.MasterID]about, self api.MasterID) string {
	voters, here, silent := 0, 0, []string{}
	for _, peer := range all {
		if !peer.Voter {
			continue
		}
		voters++
		if _, answered := answers[peer.ID]; answered || peer.ID == self {
			here++
		} else {
			silent = append(silent, fmt.Sprintf("%s at %s", peer.ID, peer.Addr))
		}
	}
	needed := voters/2 + 1
	if here >= needed {
		return ""
	}
	return fmt.Sprintf("%d of %d masters answer and %d are needed; silent: %s", here, voters, needed, strings.Join(silent, ", "))
}
