package priority_test

import (
	"testing"

	"github.com/tenderhq/tender/allocator"
)

// TestExplainsPreemption: preemption is explained both to the framework for which it happens and to one that may not
// have what becomes free.
func TestExplainsPreemption(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	fill(c, "l", 1)
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:1;mem:32", 1))
	c.Allocate()
	expect(t, victims(c), "l-0")
	c.Because("h", "l-0", "tasks on l-0 were asked back for h: it is offered what they hold when they have ended")
	c.Role(allocator.Role{Role: "other", Priority: 5})
	c.Framework("o", "other")
	c.Because("o", "l-0", "l-0 has nothing free for role other: l holds cpus:1;mem:512")
}
