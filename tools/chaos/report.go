package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/chaos"
)

// report is the result of a run.
type report struct {
	options   options
	faults    map[chaos.FaultKind]int
	failovers map[chaos.FaultKind][]time.Duration // by fault: the times from the fault to a new task RUNNING
	healed    []time.Duration
	last      string
	tasks     map[string]int // by terminal state
	proofs    int
	asked     int      // operations on the store
	unknown   int      // how many of these have an unknown result
	broken    []string // the promises that were broken
	harms     []harm
	verified  int                                // how often all was compared
	struck    map[chaos.FaultKind]map[string]int // by fault and terminal state: tasks that ran where it struck
	trust     trustReport
}

// trustReport is the result of what was done to certificates.
type trustReport struct {
	streams, meant int             // how many streams ended meanwhile, and how many of them were meant to
	unjudged       int             // rounds in which another master became the leader
	out            []time.Duration // from a revocation to the end of the framework's session
	outlived       []time.Duration // from there to the end of its task
}

func (t trustReport) print(w io.Writer) {
	fmt.Fprintf(w, "streams that ended while certificates were renewed or revoked: %d, %d of them meant; not judged: %d rounds\n", t.streams, t.meant, t.unjudged)
	fmt.Fprintf(w, "from a revocation to the end of the framework's session: %s\n", spread(t.out))
	fmt.Fprintf(w, "from there to the end of its task, whose failover time is %v: %s\n", victimOutlived, spread(t.outlived))
}

func (r *report) add(f chaos.Fault, began time.Time, healed time.Duration, l *ledger) {
	if r.faults == nil {
		r.faults, r.failovers = map[chaos.FaultKind]int{}, map[chaos.FaultKind][]time.Duration{}
	}
	r.faults[f.Do]++
	r.healed = append(r.healed, healed)
	r.last = ""
	if how, whom := f.Do.How(), f.Do.Whom(); how == "restore" || how == "trust" || how == "answer" || whom == "agent" || whom == "executors" || whom == "follower" {
		return // others run new tasks meanwhile
	}
	if at, ok := l.firstAfter(began, running); ok {
		took := at.Sub(began)
		r.failovers[f.Do] = append(r.failovers[f.Do], took)
		r.last = fmt.Sprintf(", a new task ran after %v", took.Round(time.Millisecond))
	}
}

// conclude prints the report, and returns the error of the run, or else the broken promises.
func (r *report) conclude(err error) error {
	r.print(os.Stdout)
	if err == nil && len(r.broken) > 0 {
		err = fmt.Errorf("promises were broken:\n  %s", strings.Join(r.broken[:min(len(r.broken), brokenShown)], "\n  "))
	}
	return err
}

// brokenShown is how many broken promises are shown.
const brokenShown = 100

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%d rounds with %d masters, %d agents, seed %d, profile %s\n", len(r.healed), r.options.masters, r.options.agents,
		r.options.seed, r.options.profile)
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		fmt.Fprintf(w, "  %-16s %d\n", kind, r.faults[kind])
	}
	if !r.options.mounts && !r.options.grow && r.options.executors == 0 {
		fmt.Fprintln(w, "  no disk was full and no agent rebooted: this system does not let us mount anything")
	}
	for _, kind := range slices.Sorted(maps.Keys(r.failovers)) {
		fmt.Fprintf(w, "from %s to a new task RUNNING: %s\n", kind, spread(r.failovers[kind]))
	}
	for _, kind := range slices.Sorted(maps.Keys(r.struck)) {
		fmt.Fprintf(w, "tasks that ran at %s:%s\n", kind, counts(r.struck[kind]))
	}
	fmt.Fprintf(w, "from the end of a fault to all well: %s\n", spread(r.healed))
	if r.options.life > 0 {
		r.trust.print(w)
	}
	fmt.Fprintf(w, "tasks:%s; %d proofs; tender verify compared all %d times\n", counts(r.tasks), r.proofs, r.verified)
	if r.asked == 0 {
		return
	}
	fmt.Fprintf(w, "store: %d operations judged by porcupine, %d writes among them may or may not have happened\n", r.asked, r.unknown)
}

// counts writes the numbers of tasks by terminal state.
func counts(tasks map[string]int) string {
	var text strings.Builder
	for _, state := range slices.Sorted(maps.Keys(tasks)) {
		fmt.Fprintf(&text, " %d %s", tasks[state], state)
	}
	return text.String()
}

func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "never"
	}
	times = slices.Sorted(slices.Values(times))
	at := func(p float64) time.Duration { return times[int(p*float64(len(times)-1)+0.5)].Round(time.Millisecond) }
	return fmt.Sprintf("p50 %v, p99 %v, max %v (n=%d)", at(0.5), at(0.99), at(1), len(times))
}

// verdict stops the launching, waits for every task's end, and reports which promises were broken.
func (c *cluster) verdict(ctx context.Context, r *report) error {
	if err := os.WriteFile(filepath.Join(c.dir, "stop"), nil, 0o600); err != nil {
		return err
	}
	err := c.await(ctx, "the last task's end", 4*c.options.heal, func(context.Context) string {
		if c.ledger.settled {
			return ""
		}
		return "not settled; " + c.openTasks()
	})
	r.broken = append(r.broken, c.judgeTasks(r)...)
	if err != nil {
		return err
	}
	r.broken = append(r.broken, c.judgeStore(r)...)
	r.verify(ctx, c, "at the end")
	return nil
}

// openTasks says which tasks have not ended as far as is known; "" if all have.
func (c *cluster) openTasks() string {
	open := c.ledger.open()
	if len(open) == 0 {
		return ""
	}
	return fmt.Sprintf("%d tasks are open: %s", len(open), strings.Join(open[:min(len(open), brokenShown)], " "))
}

// homes returns the folders that hold the sandboxes of tasks, if the agent may keep the tasks from our folder.
func (c *cluster) homes() []string {
	if c.options.executors == 0 {
		return nil
	}
	homes, _ := filepath.Glob(filepath.Join(c.dir, "a1", "sandboxes", "*", "*", "tasks")) // fails for bad patterns only
	return homes
}

// proofOf returns the file that a task makes when it starts: in its sandbox, if one of the homes contains that. It is
// looked up by name, because a home contains thousands of tasks after a thousand rounds.
func (c *cluster) proofOf(id string, homes []string) string {
	for _, home := range homes {
		if in := filepath.Join(home, id); exists(in) {
			return filepath.Join(in, id)
		}
	}
	return filepath.Join(c.dir, "proof", id)
}

// judgeTasks checks that every task that was launched has ended once, that none was started twice, and that its proof
// exists if, and only if, it ran to its end or was harmed on the way.
func (c *cluster) judgeTasks(r *report) (broken []string) {
	r.tasks = map[string]int{}
	homes := c.homes()
	for _, id := range slices.Sorted(maps.Keys(c.ledger.tasks)) {
		t := c.ledger.tasks[id]
		proof := c.proofOf(id, homes)
		life := chaos.Life{Launched: !t.launched.IsZero(), Ends: t.ends, Right: []string{api.TaskFinished.String()}, Excused: r.harmed(t)}
		for _, start := range []string{proof, proof + again} {
			if exists(start) {
				life.Starts++
			}
		}
		r.proofs += min(life.Starts, 1)
		r.tasks[strings.Join(t.ends, " and ")]++
		if wrong := life.Wrong(); wrong != "" {
			broken = append(broken, "task "+id+" "+wrong)
		}
	}
	return broken
}

// judgeStore checks that a single copy could have given the store's answers and its content at the end.
func (c *cluster) judgeStore(r *report) (broken []string) {
	unknown, err := c.ledger.store.judge()
	r.asked, r.unknown = len(c.ledger.store.done), unknown
	if err != nil {
		broken = append(broken, "the store is not linearizable: "+err.Error())
	}
	return broken
}

// verify notes what `tender verify` finds that does not fit together, in masters and agents.
func (r *report) verify(ctx context.Context, c *cluster, when string) {
	if why := c.tender(ctx, "verify"); why != "" && ctx.Err() == nil {
		r.broken = append(r.broken, when+": "+why)
	}
	r.verified++
}
