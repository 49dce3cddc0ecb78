package api

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Framework is what a scheduler says of itself when it subscribes.
type Framework struct {
	ID        FrameworkID // "" at the first subscription
	Name      string      // for people; with Standby the identity (R6)
	Principal string      // the identity it acts as; empty until the masters take it from the credentials
	Roles     []Role      // at least one; [DefaultRole] when it names none

	// FailoverTimeout is how long the framework's tasks live on while no scheduler is subscribed. Default 10 min.
	FailoverTimeout time.Duration
	// Standby makes the name the identity: one instance is active, the others wait.
	Standby bool
	// Constraint is a CEL expression over an agent (see docs); only agents for
	// which it is true are offered. "" = all.
	Constraint string
	// MinOffer is the smallest bundle that is worth an offer. Default cpus:0.01 or mem:32.
	MinOffer Resources
	// MaxOffer caps what one offer may hold, so that one framework does not hold what ten could use. Revocable
	// resources are capped separately. Zero: an offer may hold the whole agent.
	MaxOffer Resources
	// Revocable says that the framework also wants offers of revocable resources: cpus and mem that tasks have asked
	// for and leave unused. A task asks for them by their label (Resources.AsRevocable) and is killed (REVOKED) when
	// the tasks that they belong to need them again.
	Revocable bool

	Labels    map[string]string
	Endpoints map[string]string // name -> address, so that others find it
}

// DetachedLabel is the label of a framework to which no scheduler will come back once it has left, such as that of
// `tender run --detach`. When such a framework is without a scheduler, a drain does not wait until it acknowledges how
// its tasks have ended (R67). Its value is for people.
const DetachedLabel = "tender.detached"

// JobLabel is the label by which a task says whose job it belongs to. The job manager sets it; what is told of jobs, and
// who has used how much by job, goes by it.
const JobLabel = "tender.job"

// Detached reports whether no scheduler will come back to the framework; see [DetachedLabel].
func (f *Framework) Detached() bool {
	_, is := f.Labels[DetachedLabel]
	return is
}

// Equal reports whether both frameworks say the same of themselves.
func (f *Framework) Equal(g *Framework) bool {
	return f.ID == g.ID && f.Name == g.Name && f.Principal == g.Principal && slices.Equal(f.Roles, g.Roles) &&
		f.FailoverTimeout == g.FailoverTimeout && f.Standby == g.Standby && f.Constraint == g.Constraint &&
		f.MinOffer.Equal(g.MinOffer) && f.MaxOffer.Equal(g.MaxOffer) && f.Revocable == g.Revocable &&
		maps.Equal(f.Labels, g.Labels) && maps.Equal(f.Endpoints, g.Endpoints)
}

// CheckSize reports which part of f is larger than what masters keep, or nil.
func (f *Framework) CheckSize() error {
	if f.FailoverTimeout > FailoverTimeoutMax {
		return fmt.Errorf("failover timeout %v; at most %v is allowed", f.FailoverTimeout, FailoverTimeoutMax)
	}
	if len(f.Roles) > RolesPerFrameworkMax {
		return fmt.Errorf("%d roles, at most %d are allowed", len(f.Roles), RolesPerFrameworkMax)
	}
	if err := checkBytes("the constraint", len(f.Constraint), ConstraintBytesMax); err != nil {
		return err
	}
	for _, role := range f.Roles {
		if err := checkBytes("a role", len(role), IDBytesMax); err != nil {
			return err
		}
	}
	return firstOf(
		checkBytes("the framework's ID", len(f.ID), IDBytesMax),
		checkBytes("the name", len(f.Name), IDBytesMax),
		checkBytes("the principal", len(f.Principal), IDBytesMax),
		checkWordsSize("labels", f.Labels),
		checkWordsSize("endpoints", f.Endpoints),
		checkBytes("the least offer", f.MinOffer.Bytes(), OfferBoundBytesMax),
		checkBytes("the largest offer", f.MaxOffer.Bytes(), OfferBoundBytesMax),
	)
}

// Bytes estimates how many bytes f takes in the registry.
func (f *Framework) Bytes() int {
	size := 128 + len(f.ID) + len(f.Name) + len(f.Principal) + len(f.Constraint) + f.MinOffer.Bytes() + f.MaxOffer.Bytes() +
		wordsSize(f.Labels) + wordsSize(f.Endpoints)
	for _, role := range f.Roles {
		size += 16 + len(role)
	}
	return size
}

// Shape is one kind of task that a framework still wants to start: what each
// needs, how many, and where.
type Shape struct {
	// Resources of one. ports:2, a number, asks for any two of the agent's ports. Any part of a volume asks for the whole
	// volume of that ID, with the reservation that it has.
	Resources  Resources
	Count      int64     // how many more; at least 1
	Constraint string    // CEL, in addition to the framework's; "" = any agent
	Preferred  []AgentID // offered first while they fit
	// OnlyPreferred keeps all other agents from being offered for this shape, as for a scheduler that waits for
	// locality.
	OnlyPreferred bool
	// Spread lists the kinds of places over which the tasks are spread, the most important first: by rack, and within a
	// rack by agent. At most [SpreadsMax]. Empty: the tasks may run wherever there is room.
	Spread []Spread
	// Group names the tasks that Spread counts: all tasks of the framework in this role that have the same Group, also
	// those that run already.
	Group string
}

// Demand states what a framework still wants in a role. It replaces the demand that was stated before for that role. A
// demand without shapes says that nothing is wanted.
type Demand struct {
	Role   Role
	Shapes []Shape
}
