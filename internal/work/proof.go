package work

import (
	"cmp"
	"time"

	"github.com/tenderhq/tender/api"
)

// TimeToFail returns for how long a task that has passed its checks may go on before they have found that it no longer
// does; 0: it has none. A task that has run well for less has proven nothing. Checks are made one after the other, so
// each may have to wait for all others.
func TimeToFail(checks []api.Check) (longest time.Duration) {
	var timeouts time.Duration
	for _, check := range checks {
		timeouts += cmp.Or(check.Timeout, api.DefaultCheckTimeout)
	}
	for _, check := range checks {
		failures := cmp.Or(check.Failures, api.DefaultCheckFailures)
		longest = max(longest, time.Duration(failures)*(cmp.Or(check.Interval, api.DefaultCheckInterval)+timeouts))
	}
	return longest
}
