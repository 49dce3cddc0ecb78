// Package doctor looks at a machine and at a cluster for what keeps masters and agents from working well: clocks,
// limits, disks, ports, versions, certificates. Each finding says what is, what would be right, and what to do.
//
// It never mends anything, and leaves nothing behind on the machine.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/history"
)

// State says how bad a finding is.
type State string

// The states, the worst first. Unknown is what could not be looked at.
const (
	Bad     State = "bad"
	Warn    State = "warn"
	Unknown State = "unknown"
	Good    State = "good"
)

// Finding is one thing that was looked at.
type Finding struct {
	State State  `json:"state"`
	Of    string `json:"of"` // "machine", or such as "master m1"
	What  string `json:"what"`
	Is    string `json:"is"`
	Right string `json:"right,omitempty"` // what would be right
	Do    string `json:"do,omitempty"`    // "" where all is well
}

// Count returns how many findings have the state.
func Count(all []Finding, state State) (n int) {
	for i := range all {
		if all[i].State == state {
			n++
		}
	}
	return n
}

// least is a limit, with the amounts from which on it is enough, and below which something fails for sure.
type least struct{ good, bad uint64 }

func (l least) judge(is uint64) State {
	switch {
	case is >= l.good:
		return Good
	case is >= l.bad:
		return Warn
	}
	return Bad
}

var (
	// filesLeast: a master has a connection for each agent and scheduler; the units in deploy/ ask for as many.
	filesLeast = least{good: 65536, bad: 4096}
	// processesLeast: a task may have 4096 processes and threads, unless the agent's --task-pids says otherwise.
	processesLeast = least{good: 32768, bad: 4096}
)

func judgeLimit(of, what string, is uint64, at least, do string) Finding {
	f := Finding{State: at.judge(is), Of: of, What: what, Is: strconv.FormatUint(is, 10), Right: fmt.Sprintf("%d or more", at.good)}
	if is > 1<<40 {
		f.Is = "any number"
	}
	return f.advise(do)
}

// advise says what to do, unless all is well.
func (f Finding) advise(do string) Finding {
	if f.State != Good {
		f.Do = do
	}
	return f
}

const (
	// syncGood is how long a disk may take to store an entry of the log, or a checkpoint, for work to be fluent.
	syncGood = 10 * time.Millisecond
	// syncBad is so slow that leaders lose their majority under load.
	syncBad = 100 * time.Millisecond
)

// judgeSync judges how long writes took that were synced to the disk one by one.
func judgeSync(of, what string, took []time.Duration) Finding {
	slices.Sort(took)
	median := took[len(took)/2]
	f := Finding{
		State: Good, Of: of, What: what, Right: syncGood.String() + " or less",
		Is: fmt.Sprintf("%v for a synced write, %v the slowest of %d", round(median), round(took[len(took)-1]), len(took)),
	}
	return f.slow(median)
}

// slow sets the state by how long a synced write takes.
func (f Finding) slow(takes time.Duration) Finding {
	switch {
	case takes > syncBad:
		f.State = Bad
	case takes > syncGood:
		f.State = Warn
	}
	return f.advise("put the data folder on a faster disk, or keep other writers away from this one")
}

// judgeRoom judges what a disk has left, by what agents and masters go by themselves.
func judgeRoom(of string, room datafolder.Room) []Finding {
	bytes := Finding{State: Good, Of: of, What: "disk room", Right: "2 GB, or a twentieth of the disk", Is: fmt.Sprintf("%d MB free", room.Free>>20)}
	if room.All > 0 {
		bytes.Is += fmt.Sprintf(" of %d", room.All>>20)
	}
	inodes := Finding{State: Good, Of: of, What: "disk inodes", Right: "20,000, or a twentieth of all", Is: fmt.Sprintf("%d free", room.InodesFree)}
	if room.LittleBytes() {
		bytes.State = Warn
	}
	if room.LittleInodes() {
		inodes.State = Warn
	}
	if room.Free < history.RoomLeftBytes {
		bytes.State = Bad
	}
	if room.LacksInodes(checkpoint.InodesMin) {
		inodes.State = Bad
	}
	found := []Finding{bytes.advise("delete what is not needed there, or make the disk larger: a full one stops a master, and launches on an agent")}
	if room.Inodes > 0 {
		found = append(found, inodes.advise("delete small files there (df -i), or make a file system with more inodes"))
	}
	return found
}

const (
	clockGood = 2 * time.Second
	clockBad  = 30 * time.Second // tickets and certificates allow for a minute
)

// judgeClock judges how far another clock is ahead of ours. doubt is how far the measurement may be off.
func judgeClock(of string, ahead, doubt time.Duration) Finding {
	f := Finding{State: Good, Of: of, What: "clock", Is: "as here", Right: "within " + clockGood.String() + " of this machine's"}
	sure := ahead.Abs() - doubt
	if sure > 0 {
		side := "ahead of"
		if ahead < 0 {
			side = "behind"
		}
		f.Is = fmt.Sprintf("%v %s this machine's", round(ahead.Abs()), side)
	}
	switch {
	case sure > clockBad:
		f.State = Bad
	case sure > clockGood:
		f.State = Warn
	}
	return f.advise("let NTP (chrony, systemd-timesyncd) set both clocks: tickets and certificates are refused where clocks differ by a minute")
}

// judgeEnd judges when a certificate ends that is renewed at half of its life.
func judgeEnd(of, what string, ends, now time.Time, life time.Duration, do string) Finding {
	soon := life / 4
	f := Finding{State: Good, Of: of, What: what, Right: "more than " + words.Span(soon), Is: "ends in " + words.Span(ends.Sub(now))}
	switch left := ends.Sub(now); {
	case left <= 0:
		f.State, f.Is = Bad, "ended "+words.Span(-left)+" ago"
	case left < soon:
		f.State = Warn
	}
	return f.advise(do)
}

// round cuts a time to what people read.
func round(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// Sort puts the worst findings first, and leaves the others in their order.
func Sort(all []Finding) {
	order := []State{Bad, Warn, Unknown, Good}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State))
	})
}
