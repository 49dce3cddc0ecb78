package sim

import "strings"

// open lists what stories say of faults that are known and not mended yet. A story that ends with one of them ends
// there, and counts as no failure. Whoever mends a fault takes its line out; the ledger of docs/testing.md has the seeds.
var open = []string{
	"as STAGING", // N8: statuses do not name their launch
	"(AGENT_RESTARTED: the agent was restarted before its", //
}

// isOpen reports whether a broken promise is one of those.
func isOpen(err error) bool {
	for _, says := range open {
		if err != nil && strings.Contains(err.Error(), says) {
			return true
		}
	}
	return false
}
