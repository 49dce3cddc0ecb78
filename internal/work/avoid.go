package work

import "time"

// AvoidAfter is how many attempts in a row have to end badly until the next one goes to another agent than the latest of
// them: the machine may have what others have not, such as a program that holds the task's port. (Protocol rule R62.)
const AvoidAfter = 3

// avoidMost is how long another agent is looked for.
const avoidMost = 10 * time.Second

// AvoidFor returns for how long an attempt that waits avoids an agent. After that it may go there again, because no other
// has room.
func (b Backoff) AvoidFor() time.Duration { return min(avoidMost, b.Max) }
