// Package chaos breaks a cluster by plan, repairs it, and judges what was seen. It has the names of faults, the plan
// that a seed draws, how the plan is played, and the check of each task. It never breaks anything itself: a stage does.
// See DESIGN.md.
package chaos

import (
	"fmt"
	"strings"
	"time"
)

// Plan is a list of faults. A failed test prints it as text.
type Plan struct {
	Seed   uint64
	Length time.Duration // the faults begin within it; then it stays calm
	Faults []Fault
}

// Fault is something that breaks and, after a while, is repaired.
type Fault struct {
	At    time.Duration // since the plan began
	For   time.Duration
	Do    FaultKind
	Whom  int // which of the parts that the kind is about, from 1 on; modulo their number
	Whom2 int // the other end, or in which way, if there are several
}

// FaultKind is what is done, a slash, and to whom.
type FaultKind string

// The faults that several stages have. A fault of only one stage has its name in that stage's table.
const (
	KillLeader    FaultKind = "kill/leader"    // started again after For, with its disk
	KillFollower  FaultKind = "kill/follower"  // likewise
	KillAgent     FaultKind = "kill/agent"     // likewise; its executors go on
	KillScheduler FaultKind = "kill/scheduler" //
	KillExecutor  FaultKind = "kill/executor"  // one executor of an agent
	CutLeader     FaultKind = "cut/leader"     // it is cut off from everybody; what is sent waits
	CutFollower   FaultKind = "cut/follower"   //
	CutAgent      FaultKind = "cut/agent"      //
	CutScheduler  FaultKind = "cut/scheduler"  //
	RebootAgent   FaultKind = "reboot/agent"   // its machine is rebooted, with everything that runs on it
	GoneAgent     FaultKind = "gone/agent"     // it is cut off, marked gone, and told so when it comes back
	FullAgent     FaultKind = "full/agent"     // its disk is full
	Restore       FaultKind = "restore/masters"
)

// How returns the part before the slash.
func (k FaultKind) How() string { how, _, _ := strings.Cut(string(k), "/"); return how }

// Whom returns the part after the slash.
func (k FaultKind) Whom() string { _, whom, _ := strings.Cut(string(k), "/"); return whom }

// Of returns which one of count parts the fault is about, counted from 0.
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
