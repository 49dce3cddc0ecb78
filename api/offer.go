package api

import "time"

// Offer is resources of one agent, held by one framework in one role until it is
// answered, expires or is rescinded.
type Offer struct {
	ID         OfferID
	Framework  FrameworkID
	Agent      AgentID
	Role       Role
	Resources  Resources
	Hostname   string
	Attributes map[string]string
	Region     string
	Zone       string
	// Executors of the framework that run on the agent already.
	Executors []ExecutorID
	// Timeout is how long after its arrival the offer can be answered.
	Timeout time.Duration
	// Unavailable is the agent's next maintenance, or nil.
	Unavailable *Window
}

// Window is a time in which something is not available.
type Window struct {
	Start    time.Time
	Duration time.Duration // 0 = without end
}

// End is when the window is over, zero for never.
func (w Window) End() time.Time {
	if w.Duration == 0 {
		return time.Time{}
	}
	return w.Start.Add(w.Duration)
}

// Over says whether the window lies in the past.
func (w Window) Over(now time.Time) bool { return w.Duration > 0 && !now.Before(w.End()) }

// InverseOffer asks for resources back: by then they will be taken.
type InverseOffer struct {
	ID        OfferID
	Framework FrameworkID
	Agent     AgentID
	Resources Resources // zero = all on that agent
	Tasks     []TaskID  // what would be killed
	Deadline  time.Time
	Reason    Reason // PREEMPTED or AGENT_DRAINING
}

// Filter is what a decline leaves behind: for this long, no offer of this agent in this role, while
// the agent has no more free than when it was offered. It ends before when a task of the framework
// ends on the agent, and when the framework's demand in the role was none or grows.
type Filter struct {
	// Refuse is how long. 0 = the default of 5 s, at most a year; negative = no filter.
	Refuse time.Duration
}

// DefaultRefuse is the life of a filter that names none.
const DefaultRefuse = 5 * time.Second

// NoFilter is a filter that leaves nothing behind. The same of an agent that was declined whole is
// offered again after a tenth of a second at the earliest all the same.
var NoFilter = Filter{Refuse: -1}

// For returns how long the filter lives; 0 means not at all.
func (f Filter) For() time.Duration {
	switch {
	case f.Refuse < 0:
		return 0
	case f.Refuse == 0:
		return DefaultRefuse
	}
	return min(f.Refuse, 365*24*time.Hour)
}

// OperationKind says what an operation does.
type OperationKind uint8

// The kinds of operations.
const (
	OpLaunch      OperationKind = iota + 1 // start Tasks
	OpReserve                              // reserve Resources for the offer's role
	OpUnreserve                            // undo that
	OpCreate                               // make a persistent Volume of reserved disk
	OpDestroy                              // delete a persistent Volume with its data
	OpLaunchGroup                          // start Tasks as one group: all of them or none
)

func (k OperationKind) String() string {
	names := [...]string{"unspecified", "launch", "reserve", "unreserve", "create", "destroy", "launch-group"}
	if int(k) < len(names) {
		return names[k]
	}
	return names[0]
}

// Launches says whether an operation of the kind starts tasks. Others change what is reserved.
func (k OperationKind) Launches() bool { return k == OpLaunch || k == OpLaunchGroup }

// Operation is one thing that an answer asks for. Operations run in order, each
// against what the ones before have left.
type Operation struct {
	ID        OperationID // optional: ask for an event with the outcome
	Kind      OperationKind
	Tasks     []Task    // OpLaunch, OpLaunchGroup
	Resources Resources // OpReserve, OpUnreserve
	Volume    VolumeID  // OpCreate, OpDestroy
	Size      Milli     // OpCreate: of disk, in MB
}

// Answer is what a scheduler makes of offers of one agent and one role. Without
// operations it is a decline. What the operations leave is declined with the filter.
type Answer struct {
	Offers     []OfferID
	Operations []Operation
	Filter     Filter
	// Keep holds the offers for later: nothing is sent now; the scheduler answers
	// through its client before they expire.
	Keep bool
}

// Launch answers an offer with tasks; the rest is declined with the default filter.
func Launch(offer Offer, tasks ...Task) Answer {
	return Answer{Offers: []OfferID{offer.ID}, Operations: []Operation{{Kind: OpLaunch, Tasks: tasks}}}
}

// LaunchGroup answers an offer with tasks that live and die together; see [CheckTaskGroup]. The rest is declined with
// the default filter.
func LaunchGroup(offer Offer, tasks ...Task) Answer {
	return Answer{Offers: []OfferID{offer.ID}, Operations: []Operation{{Kind: OpLaunchGroup, Tasks: tasks}}}
}

// Decline gives an offer back and asks not to see that agent again for so long
// (0 = the default filter, negative = none).
func Decline(offer Offer, refuse time.Duration) Answer {
	return Answer{Offers: []OfferID{offer.ID}, Filter: Filter{Refuse: refuse}}
}

// Keep holds an offer for an answer through the client. It is the framework's for a second; kept for longer, it is
// taken back when somebody with stated demand could use what it holds, at the latest when it expires.
func Keep(offer Offer) Answer { return Answer{Offers: []OfferID{offer.ID}, Keep: true} }
