package names

import (
	"context"
	"testing"
	"testing/synctest"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestNotYetIsNoName: while agents have yet to report to the leader, no name is denied that they may bring. What is known
// is told, and what was known before is told on.
func TestNotYetIsNoName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play()
		ctx, cancel := context.WithCancel(t.Context())
		s := &Server{cache: newCache(ctx, p.source())}
		check := func(name string, endpoints int, fails bool) {
			t.Helper()
			its, err := s.look(t.Context(), asked{framework: "framework-3", wanted: wanted{name: name}})
			if len(its.endpoints) != endpoints || (err != nil) != fails {
				t.Errorf("%s: %d endpoints, %v; want %d, %v", name, len(its.endpoints), err, endpoints, fails)
			}
		}
		p.notYet = &apiv1.Error{Kind: apiv1.ErrorKind_UNAVAILABLE, Message: "not yet known"}
		check("db", 1, false)
		check("db2", 0, true)
		p.put("framework-3", "db2", "agent-1", map[string]uint32{"pg": 5433})
		p.notYet = nil
		pass(retryAfter)
		check("db2", 1, false)
		check("db3", 0, false)
		p.tasks["framework-3"], p.notYet = nil, &apiv1.Error{Kind: apiv1.ErrorKind_UNAVAILABLE, Message: "not yet known"}
		pass(zoneAgeMax)
		check("db2", 1, false)
		cancel()
		s.cache.reads.Wait()
	})
}
