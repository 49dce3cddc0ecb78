package api

import "time"

// Offer offers resources of one agent to one framework in one role. The framework holds them until it answers the
// offer, or until the offer expires or is rescinded.
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
	// Executors lists the framework's executors that run on the agent already.
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

// End returns when the window is over; the zero time if it never is.
func (w Window) End() time.Time {
	if w.Duration == 0 {
		return time.Time{}
	}
	return w.Start.Add(w.Duration)
}

// Over reports whether the window lies in the past.
func (w Window) Over(now time.Time) bool { return w.Duration > 0 && !now.Before(w.End()) }

// InverseOffer asks a framework to give resources back. At the deadline they are taken.
type InverseOffer struct {
	ID        OfferID
	Framework FrameworkID
	Agent     AgentID
	Resources Resources // zero = all on that agent
	Tasks     []TaskID  // what would be killed
	Deadline  time.Time
	Reason    Reason // PREEMPTED or AGENT_DRAINING
}

// Filter keeps an agent from being offered to a framework again after a decline: for some time it gets no offer of this
// agent in this role, while the agent has no more free resources than in the declined offer. The filter ends early when
// a task of the framework ends on the agent, and when the framework states a demand in the role where it had none, or a
// larger one.
type Filter struct {
	// Refuse is how long the filter lives. 0: the default of 5 s; at most a year, more counts as a year. Negative: no
	// filter.
	Refuse time.Duration
}

// DefaultRefuse is how long a filter lives that names no time.
const DefaultRefuse = 5 * time.Second

// NoFilter declines without a filter. Even so, what was declined of an agent as a whole is offered again after a tenth
// of a second at the earliest.
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

// OperationKind is what an operation does.
type OperationKind uint8

// The kinds of operations.
const (
	OpLaunch      OperationKind = iota + 1 // start Tasks
	OpReserve                              // reserve Resources for the offer's role
	OpUnreserve                            // remove the reservation of Resources
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

// Launches reports whether operations of this kind start tasks. The other kinds change reservations and volumes.
func (k OperationKind) Launches() bool { return k == OpLaunch || k == OpLaunchGroup }

// Operation is one step of an answer. The operations of an answer run in order, each on what the ones before it have
// left.
type Operation struct {
	ID        OperationID // optional: the outcome is then told by an event
	Kind      OperationKind
	Tasks     []Task    // OpLaunch, OpLaunchGroup
	Resources Resources // OpReserve, OpUnreserve
	Volume    VolumeID  // OpCreate, OpDestroy
	Size      Milli     // OpCreate: of disk, in MB
	Tag       string    // OpReserve, OpUnreserve, OpCreate: that of the reservation, see Label; "" = none
}

// Answer is a scheduler's answer to offers of one agent in one role. An answer without operations declines them. What
// its operations leave over is declined, with the filter.
type Answer struct {
	Offers     []OfferID
	Operations []Operation
	Filter     Filter
	// Keep holds the offers back. No answer is sent now; the scheduler answers later through its client, before the
	// offers expire.
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

// Decline declines an offer and asks for no offer of that agent for this time (0 = the default filter, negative =
// none).
func Decline(offer Offer, refuse time.Duration) Answer {
	return Answer{Offers: []OfferID{offer.ID}, Filter: Filter{Refuse: refuse}}
}

// Keep holds an offer back, to be answered later through the client. For one second nobody can take it. Kept for
// longer, it is rescinded when somebody with a stated demand could use its resources, and in any case when it expires.
func Keep(offer Offer) Answer { return Answer{Offers: []OfferID{offer.ID}, Keep: true} }
