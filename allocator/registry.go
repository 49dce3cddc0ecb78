package allocator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator/constraint"
)

// DefaultOfferAgain is the least time between offers of the same where nothing has changed.
const DefaultOfferAgain = 100 * time.Millisecond

// Config is what every policy is made from.
type Config struct {
	// MinOffer is the least worth offering to a framework that says nothing itself:
	// any one of the two is enough. Default 0.01 cpus or 32 MB.
	MinOffer []MinOffer
	// OfferAgain is how long after an agent was offered last, to whomever, the same of it is offered
	// again to a framework that gave it back untouched, at the earliest, when that left no filter and
	// nothing has changed. Default 100ms. Short lets frameworks that decline everything keep the
	// master busy; long delays those that have changed their mind.
	OfferAgain time.Duration
	// Seed feeds the choices that must not always fall the same way.
	Seed uint64
	// Argument is what stands behind the colon of a name such as remote:HOST:PORT. Make
	// fills it in.
	Argument string
	// Compile makes a program of a constraint; the same text always the same. Default
	// constraint.Compile; a master keeps what it has compiled.
	Compile func(expr string) (*constraint.Program, error)
}

// MinOffer is one amount that is enough on its own.
type MinOffer struct {
	Name  string
	Milli int64
}

// New makes a policy.
type New func(Config) (Allocator, error)

// news finds policies by name. Written by Register before anything runs, then read only.
var news = map[string]New{}

// Register adds a policy under a name, for use from a main function before anything
// runs. A name such as "remote:ADDR" stands for all that begin with "remote:". It panics when the name is taken, which is a mistake in that function.
func Register(name string, policy New) {
	if _, taken := news[name]; taken {
		panic(fmt.Sprintf("allocator %q is registered twice", name))
	}
	news[name] = policy
}

// Make makes the policy of that name. The error lists the names there are.
func Make(name string, config Config) (Allocator, error) {
	policy, argument := find(name)
	if policy == nil {
		return nil, fmt.Errorf("allocator %q is unknown; there are %s", name, strings.Join(Names(), ", "))
	}
	config.Argument = argument
	return policy(config)
}

func find(name string) (New, string) {
	before, argument, cut := strings.Cut(name, ":")
	if !cut {
		return news[name], ""
	}
	for _, known := range Names() {
		if strings.HasPrefix(known, before+":") {
			return news[known], argument
		}
	}
	return nil, ""
}

// Names lists the registered names, sorted.
func Names() []string { return slices.Sorted(maps.Keys(news)) }
