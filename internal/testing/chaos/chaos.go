// Package chaos breaks a cluster by plan, repairs it, and judges what was seen. It has the names of faults, the plan
// that a seed draws, how the plan is played, and the check of each task. It never breaks anything itself: a stage does.
// See DESIGN.md.
package chaos

import (
	"fmt"
	"strings"
	"time"
)

// Plan is a list of faults. Its text is what a failed test prints.
type Plan struct {
	Seed   uint64
	Length time.Duration // the faults begin in it; then comes the calm
	Faults []Fault
}

// Fault is one thing that goes wrong and, after a while, right again.
type Fault struct {
	At    time.Duration // since the plan began
	For   time.Duration
	Do    FaultKind
	Whom  int // which one of those that the kind is about, from 1 on; modulo how many there are
	Whom2 int // the other end, or in which way, where there are several
}

// FaultKind is what goes wrong, a slash, and with whom.
type FaultKind string

// The faults that more than one stage does. What a stage alone can do has its name in that stage's table.
const (
	KillLeader    FaultKind = "kill/leader"    // started again after For, with its disk
	KillFollower  FaultKind = "kill/follower"  // likewise
	KillAgent     FaultKind = "kill/agent"     // likewise; its executors live on
	KillScheduler FaultKind = "kill/scheduler" //
	KillExecutor  FaultKind = "kill/executor"  // one of an agent
	CutLeader     FaultKind = "cut/leader"     // nobody reaches it, and it reaches nobody; what is sent waits
	CutFollower   FaultKind = "cut/follower"   //
	CutAgent      FaultKind = "cut/agent"      //
	CutScheduler  FaultKind = "cut/scheduler"  //
	RebootAgent   FaultKind = "reboot/agent"   // its machine, with all that runs on it
	GoneAgent     FaultKind = "gone/agent"     // it is away, is marked gone, and comes back to learn it
	FullAgent     FaultKind = "full/agent"     // its disk
	Restore       FaultKind = "restore/masters"
)

// How is the part before the slash.
func (k FaultKind) How() string { how, _, _ := strings.Cut(string(k), "/"); return how }

// Whom is the part behind it.
func (k FaultKind) Whom() string { _, whom, _ := strings.Cut(string(k), "/"); return whom }

// Of says which one of so many the fault is about, counted from 0.
func (f Fault) Of(count int) int { return ((f.Whom-1)%count + count) % count }

func (f Fault) String() string {
	return fmt.Sprintf("%8.3fs %s (%d, %d) for %.3fs", f.At.Seconds(), f.Do, f.Whom, f.Whom2, f.For.Seconds())
}

// String lists the faults.
func (p Plan) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d, %d faults in %v:\n", p.Seed, len(p.Faults), p.Length)
	for _, fault := range p.Faults {
		fmt.Fprintf(&out, "  %s\n", fault)
	}
	return out.String()
}
