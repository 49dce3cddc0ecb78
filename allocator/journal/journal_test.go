package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/allocatortest"
	"github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/allocator/journal"
	"github.com/tenderhq/tender/allocator/priority"
	"github.com/tenderhq/tender/api"
)

// recorded is a policy with the journal that is written of it.
type recorded struct {
	allocator.Allocator
	file []byte
}

func record(t *testing.T, name string, fresh allocator.New) *recorded {
	r := &recorded{file: []byte(journal.Magic)}
	encoder := &journal.Encoder{Policy: name, Epoch: time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC)}
	mirror := inputs.NewMirror()
	r.file = encoder.Head(r.file, mirror, true)
	r.Allocator = inputs.NewTap(policy(t, fresh),
		func(input inputs.Input) { mirror.Note(input); r.file = encoder.Input(r.file, input) },
		func(allocation allocator.Allocation) { r.file = encoder.Proposed(r.file, allocation) })
	return r
}

func policy(t *testing.T, fresh allocator.New) allocator.Allocator {
	t.Helper()
	made, err := fresh(allocator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (r *recorded) section(t *testing.T) *journal.Section {
	t.Helper()
	sections, torn, err := journal.Read(bytes.NewReader(r.file))
	if err != nil || torn || len(sections) != 1 {
		t.Fatalf("%d sections, torn %v: %v", len(sections), torn, err)
	}
	return &sections[0]
}

// busy lets three frameworks work for a while.
func busy(t *testing.T, p allocator.Allocator) { work(t, p, 200) }

// few is the number of rounds where the journal is read many times.
const few = 8

func work(t *testing.T, p allocator.Allocator, rounds int) {
	random := rand.New(rand.NewPCG(1, 2))
	c := allocatortest.NewCluster(t, p)
	for i := range 5 {
		c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), "cpus:8;mem:8192;ports:[1000-1999]")
	}
	for i, role := range []api.Role{"batch", "web", "web/api"} {
		c.Framework(api.FrameworkID(fmt.Sprintf("f%d", i)), role)
	}
	c.Role(allocator.Role{Role: "web", Weight: 2, Priority: 5, Guarantee: c.R("cpus:4")})
	c.Demand("f1", "web", c.Shape("cpus:1;mem:512", 60))
	for range rounds {
		c.Sleep(time.Duration(1+random.IntN(2000)) * time.Millisecond)
		c.Allocate()
		for len(c.Offers) > 0 {
			c.Accept(c.Offers[0], time.Duration(random.IntN(5))*time.Second, sized(c, random)...)
		}
		for len(c.Tasks) > 0 && random.IntN(3) == 0 {
			c.Finish(c.Tasks[random.IntN(len(c.Tasks))])
		}
	}
}

// sized makes a task that fits into the first offer, or none.
func sized(c *allocatortest.Cluster, random *rand.Rand) []api.Resources {
	task := c.R("cpus:1;mem:512")
	if random.IntN(2) == 0 || !c.Offers[0].Resources.Contains(task) {
		return nil
	}
	return []api.Resources{task}
}

// TestSame: a policy that is told the journal's inputs gives exactly the answers that the journal has.
func TestSame(t *testing.T) {
	for name, fresh := range map[string]allocator.New{"fairshare": fairshare.New, "priority": priority.New} {
		r := record(t, name, fresh)
		busy(t, r)
		section := r.section(t)
		rounds, same := section.Same(policy(t, fresh))
		if rounds < 200 || same != rounds {
			t.Errorf("%s: %d of %d answers are identical", name, same, rounds)
		}
	}
}

// TestOther: the journal of one policy does not fit another policy.
func TestOther(t *testing.T) {
	r := record(t, "fairshare", fairshare.New)
	busy(t, r)
	if rounds, same := r.section(t).Same(policy(t, priority.New)); same == rounds {
		t.Errorf("priority proposed what fairshare did, %d times", rounds)
	}
}

// TestReplay: an agent has room for one task at a time, and two roles want two tasks each. The role of higher priority
// goes first, and the other one waits longer for that.
func TestReplay(t *testing.T) {
	r := record(t, "fairshare", fairshare.New)
	c := allocatortest.NewCluster(t, r)
	c.Role(allocator.Role{Role: "high", Priority: 9})
	c.Framework("h", "high")
	c.Framework("l", "low")
	for _, role := range []api.Role{"low", "high"} {
		c.Demand(api.FrameworkID(role[:1]), role, c.Shape("cpus:1;mem:512", 2))
	}
	c.Allocate() // from this moment on both demands wait
	c.Agent("a1", "cpus:1;mem:512")
	for range 4 {
		c.Allocate()
		c.Accept(c.Offers[0], 0, c.R("cpus:1;mem:512"))
		c.Allocate() // a master allocates after every batch of events; this gives the inputs their time
		c.Sleep(10 * time.Second)
		c.Finish(c.Tasks[0])
	}
	c.Allocate()
	section := r.section(t)
	was, is := journal.Recorded(section), journal.Replay(section, policy(t, priority.New))
	if was.Started != 4 || is.Started != 4 || was.Span != 40*time.Second || was.Utilisation["cpus"] != 1 || is.Utilisation["cpus"] != 1 {
		t.Errorf("recorded %+v\nreplayed %+v", was, is)
	}
	if was.Waits["high"].Max < 20*time.Second || is.Waits["high"].Max != 10*time.Second || is.Waits["low"].Max != 30*time.Second {
		t.Errorf("waits recorded %v, replayed %v", was.Waits, is.Waits)
	}
	if is.Shares["high"] != 0.5 || is.Shares["low"] != 0.5 {
		t.Errorf("shares %v", is.Shares)
	}
}

// TestTorn: a record that a crash has torn at the end is left out, wherever it was torn.
func TestTorn(t *testing.T) {
	r := record(t, "fairshare", fairshare.New)
	work(t, r, few)
	all := len(r.section(t).Steps)
	if len(r.file) < 2000 {
		t.Fatalf("%d bytes say little", len(r.file))
	}
	for cut := 1; cut < 200; cut++ {
		left := r.file[:len(r.file)-cut]
		sections, _, err := journal.Read(bytes.NewReader(left))
		if err != nil || len(sections[0].Steps) > all {
			t.Fatalf("%d bytes torn off: %v", cut, err)
		}
		whole, err := journal.Whole(bytes.NewReader(left))
		if err != nil {
			t.Fatal(err)
		}
		if _, torn, err := journal.Read(bytes.NewReader(left[:whole])); torn || err != nil {
			t.Fatalf("%d bytes torn off, cut to %d: torn %v, %v", cut, whole, torn, err)
		}
	}
	if _, _, err := journal.Read(bytes.NewReader([]byte("something else, and long enough"))); err == nil {
		t.Error("a file of another kind was taken for a journal")
	}
}

// TestUnreadable: an error of the disk is not taken for a torn end, because good records would be cut off then.
func TestUnreadable(t *testing.T) {
	r := record(t, "fairshare", fairshare.New)
	work(t, r, few)
	broken := errors.New("input/output error")
	for cut := range 100 { // more than the last record: between two, in the prefix and in the body
		disk := func() io.Reader {
			return io.MultiReader(bytes.NewReader(r.file[:len(r.file)-cut]), iotest.ErrReader(broken))
		}
		if _, torn, err := journal.Read(disk()); torn || !errors.Is(err, broken) {
			t.Fatalf("Read, %d bytes before the end: torn %v, %v", cut, torn, err)
		}
		if _, err := journal.Whole(disk()); !errors.Is(err, broken) {
			t.Fatalf("Whole, %d bytes before the end: %v", cut, err)
		}
	}
}
