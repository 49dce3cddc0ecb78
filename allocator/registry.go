package allocator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator/constraint"
)

// DefaultOfferAgain is the least time after which the same resources are offered again if nothing has changed.
const DefaultOfferAgain = 100 * time.Millisecond

// Config is what every policy is made from.
type Config struct {
	// MinOffer is the least that is worth offering to a framework that sets no MinOffer itself; any one of the amounts
	// is enough. Default 0.01 cpus or 32 MB.
	MinOffer []MinOffer
	// OfferAgain is the least time between the last offer of an agent, to any framework, and the next offer of the same
	// resources to a framework that gave them back untouched, if it left no filter and nothing has changed. Default
	// 100ms. If it is short, frameworks that decline everything keep the master busy; if it is long, frameworks that
	// have changed their mind wait.
	OfferAgain time.Duration
	// Seed seeds the choices that must not always be the same.
	Seed uint64
	// Argument is what follows the colon in a name such as remote:HOST:PORT. Make sets it.
	Argument string
	// Compile compiles a constraint. The same text must always give the same program. Default constraint.Compile; a
	// master keeps the programs that it has compiled.
	Compile func(expr string) (*constraint.Program, error)
}

// MinOffer is one amount that is enough by itself.
type MinOffer struct {
	Name  string
	Milli int64
}

// New makes an allocator.
type New func(Config) (Allocator, error)

// news holds the policies by name. Register writes it before anything runs; after that it is only read.
var news = map[string]New{}

// Register adds a policy under a name. Call it in a main function before anything runs. A name such as "remote:ADDR"
// stands for all names that begin with "remote:". Register panics if the name is taken, because that is a mistake of
// that function.
func Register(name string, policy New) {
	if _, taken := news[name]; taken {
		panic(fmt.Sprintf("allocator %q is registered twice", name))
	}
	news[name] = policy
}

// Make makes an allocator with the policy of that name. If there is none, the error lists the names that exist.
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

// Names returns the registered names, sorted.
func Names() []string { return slices.Sorted(maps.Keys(news)) }
