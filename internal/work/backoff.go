package work

import (
	"hash/fnv"
	"time"

	"github.com/tenderhq/tender/api"
)

// Backoff says how long a piece of work waits before its next attempt.
type Backoff struct {
	// First is the pause after the first failure. It doubles with each attempt in a row that ends badly. 0 or less: no
	// pauses.
	First time.Duration
	// Max is the longest pause. An attempt that ran for so long ends the row.
	Max time.Duration
}

// After returns the pause after so many attempts in a row that ended badly, the last of them this task. The first loss
// that was not the task's fault costs no pause: another agent can take the work at once. Up to a half is taken off
// ("equal jitter"), so that what failed together does not come back together, and always the same part for the same
// task, so that the decision can be made again.
func (b Backoff) After(row int, lost bool, task api.TaskID) time.Duration {
	if lost {
		row--
	}
	if row <= 0 || b.First <= 0 {
		return 0
	}
	pause := min(b.First, b.Max)
	for ; row > 1 && pause < b.Max; row-- {
		pause = min(2*pause, b.Max)
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(task)) // a hash takes what it is given
	return pause - time.Duration(float64(pause)/2*float64(sum.Sum32()%1000)/1000)
}

// EndsRow reports whether an attempt that ran for so long ends the row of those that ended badly.
func (b Backoff) EndsRow(ran time.Duration) bool { return ran >= b.Max }
