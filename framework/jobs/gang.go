package jobs

import (
	"cmp"
	"time"
)

// Gang says how many members a parallel program has. All members begin together or none does, and each is told where
// the others are.
type Gang struct {
	// Members is how many tasks the gang has, 2 to 256.
	Members int `json:"members" toml:"members" rule:"required 2..256"`
	// OnFailure says what happens when a member fails: all others are ended and the whole gang begins anew, up to
	// Task.Attempts times ("restart", the default), or the job has failed ("fail"). If a member is lost without a fault
	// of its own, the gang begins anew in either case.
	OnFailure OnGangFailure `json:"on_failure,omitempty" toml:"on_failure" rule:"restart|fail"`
	// Gather is how long room for some members may be held while there is none for the others. Then the room is given
	// back for a while. Default 10 s.
	Gather Duration `json:"gather,omitempty" toml:"gather" rule:"positive"`
	// Deadline ends the job if it is not done this long after it was submitted. Default: no deadline.
	Deadline Duration `json:"deadline,omitempty" toml:"deadline" rule:"positive"`
}

// OnGangFailure says what happens to a gang when a member fails.
type OnGangFailure string

// The policies of gangs.
const (
	RestartGang OnGangFailure = "restart"
	FailGang    OnGangFailure = "fail"
)

// Bounds and defaults of gangs.
const (
	DefaultGather = 10 * time.Second
	// MembersMax bounds the members of a gang, because each member is told of all.
	MembersMax = 256
)

// MembersFile is the name of the file in which a member of a gang finds the list of all members; it is in the folder in
// which the member starts.
const MembersFile = "members.txt"

func (g *Gang) withDefaults() *Gang {
	var full Gang
	if g != nil {
		full = *g
	}
	full.OnFailure = cmp.Or(full.OnFailure, RestartGang)
	full.Gather = cmp.Or(full.Gather, Duration(DefaultGather))
	return &full
}
