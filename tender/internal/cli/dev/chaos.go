package dev

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/testing/chaos"
	"github.com/tenderhq/tender/internal/words"
)

const (
	// chaosRounds is how many faults a plan has: more than anybody waits for.
	chaosRounds = 1000
	// chaosBreath is the time between a fault's end, when all is well again, and the next fault, so that the story shows
	// what a framework does after each of them.
	chaosBreath = 5 * time.Second
	// chaosLook is the time between two looks at the frameworks.
	chaosLook = 500 * time.Millisecond
)

// breaking is the running cluster as a stage on which faults are played, one after the other. It tells the story.
type breaking struct {
	house    *house
	ctx      context.Context
	operator apiv1.OperatorServiceClient
	began    time.Time
	over     time.Time // when the last fault was over
	leader   string    // the last one that was seen; "": nobody leads
	known    map[string]*watched
}

// watched is what was last seen of a framework.
type watched struct {
	state string
	tasks map[string]string // the states of its tasks, by ID
}

// chaosActs are the faults that processes on one machine can have. They have the names that frameworktest and `make
// chaos` give them.
var chaosActs = []chaos.Act[*breaking]{
	{Do: chaos.KillLeader, Most: 3 * time.Second, Begin: chaos.On((*breaking).leads, kill, revive)},
	{Do: chaos.KillAgent, Most: 3 * time.Second, Begin: chaos.On((*breaking).anAgent, kill, revive)},
	{Do: chaos.KillExecutor, Most: time.Second, Begin: chaos.On((*breaking).busyAgent, killExecutors, nil)},
	{Do: "stop/agent", Least: time.Second, Most: 10 * time.Second, Begin: chaos.On((*breaking).anAgent, stop, proceed)},
	{Do: "stop/leader", Least: time.Second, Most: 10 * time.Second, Begin: chaos.On((*breaking).leads, stop, proceed)},
	{Do: chaos.KillFollower, Most: 3 * time.Second, Begin: chaos.On((*breaking).follows, kill, revive)},
}

// breakAll breaks the cluster by the plan of a seed, as soon as a framework is there.
func (h *house) breakAll(ctx context.Context, operator apiv1.OperatorServiceClient, seed uint64) error {
	b := &breaking{house: h, ctx: ctx, operator: operator, began: time.Now(), known: map[string]*watched{}}
	b.say("seed %d breaks this cluster as soon as a framework is there; the same seed breaks it in the same way again", seed)
	for len(b.known) == 0 {
		if err := b.Pass(chaosLook); err != nil {
			return err
		}
	}
	err := chaos.Play(chaos.Rounds(seed, chaosRounds, chaosActs), b, chaosActs)
	if err == nil {
		b.say("the plan of seed %d is over; nothing more is broken", seed)
	}
	return err
}

func (b *breaking) say(format string, args ...any) {
	b.house.config.Say("%7.1fs  %s", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// Pass lets time pass, and tells what the frameworks do meanwhile.
func (b *breaking) Pass(d time.Duration) error {
	for end := time.Now().Add(d); ; {
		b.look()
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		if !pause.For(b.ctx, min(left, chaosLook)) {
			return context.Cause(b.ctx)
		}
	}
}

// Tell tells when a fault ends. Whom it strikes is told when it begins.
func (b *breaking) Tell(what string, f chaos.Fault) {
	if b.over = time.Now(); what == "ends" {
		b.say("%s ends", f.Do)
	}
}

// Calm waits until all masters and agents are well again.
func (b *breaking) Calm(f chaos.Fault) error {
	for why := b.ill(); why != ""; why = b.ill() {
		if err := b.Pass(chaosLook); err != nil {
			return fmt.Errorf("after %s: %s: %w", f.Do, why, err)
		}
	}
	b.say("all masters and agents are well, %.1f s after %s", time.Since(b.over).Seconds(), f.Do)
	return b.Pass(chaosBreath)
}

// ill returns which master or agent is not well; "" if all are.
func (b *breaking) ill() string {
	masters, err := b.operator.ListMasters(b.ctx, &apiv1.ListRequest{})
	if err != nil {
		return err.Error()
	}
	for _, m := range masters.GetItems() {
		if m.GetState() != "leader" && m.GetState() != "follower" {
			return fmt.Sprintf("master %s is %s", m.GetId(), m.GetState())
		}
	}
	return b.house.findMissing(b.ctx, b.operator)
}

// struck is a process with the fault that strikes it.
type struck struct {
	*breaking
	fault   chaos.Fault
	process *process
	folder  string
}

func (b *breaking) master(f chaos.Fault, choose func(leads bool) bool) struck {
	var fit []int
	for i, m := range b.house.cluster.Masters {
		if choose(m.ID == b.leader) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		fit = []int{0} // the only one, or nobody leads
	}
	i := fit[f.Of(len(fit))]
	return struck{b, f, b.house.children[&b.house.cluster.Masters[i].PID], b.house.cluster.Masters[i].Dir}
}

func (b *breaking) leads(f chaos.Fault) struck {
	return b.master(f, func(leads bool) bool { return leads })
}

func (b *breaking) follows(f chaos.Fault) struck {
	return b.master(f, func(leads bool) bool { return !leads })
}

func (b *breaking) anAgent(f chaos.Fault) struck {
	agent := &b.house.cluster.Agents[f.Of(len(b.house.cluster.Agents))]
	return struck{b, f, b.house.children[&agent.PID], agent.Dir}
}

// busyAgent returns an agent that has executors, if there is one.
func (b *breaking) busyAgent(f chaos.Fault) struck {
	for range b.house.cluster.Agents {
		if s := b.anAgent(f); len(executorsBelow(s.folder)) > 0 {
			return s
		}
		f.Whom++
	}
	return b.anAgent(f)
}

func (s struck) begins(what string) {
	s.say("%s begins: %s %s for %.1f s", s.fault.Do, s.process.name, what, s.fault.For.Seconds())
}

func kill(s struck) {
	s.begins("is killed, and away")
	s.house.holdBack(s.process, true)
	_ = syscall.Kill(s.house.pidOf(s.process), syscall.SIGKILL) // it may have ended already
}

func revive(s struck) { s.house.holdBack(s.process, false) }

func stop(s struck) {
	s.begins("is stopped")
	_ = syscall.Kill(s.house.pidOf(s.process), syscall.SIGSTOP) // it may have ended already
}

func proceed(s struck) {
	_ = syscall.Kill(s.house.pidOf(s.process), syscall.SIGCONT) // it may have ended already
}

// killExecutors kills all executors of an agent; none of their tasks outlives them.
func killExecutors(s struck) {
	executors := executorsBelow(s.folder)
	s.say("%s begins: %s of %s killed", s.fault.Do, words.Count(len(executors), "executor"), s.process.name)
	for _, pid := range executors {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
	}
}

// look tells what has changed of the leader, of frameworks and of their tasks.
func (b *breaking) look() {
	masters, err := b.operator.ListMasters(b.ctx, &apiv1.ListRequest{})
	if err != nil {
		if b.leader != "" && b.ctx.Err() == nil {
			b.leader = ""
			b.say("no master leads")
		}
		return
	}
	for _, m := range masters.GetItems() {
		if m.GetState() == "leader" && m.GetId() != b.leader {
			b.leader = m.GetId()
			b.say("master %s leads", b.leader)
		}
	}
	frameworks, err := b.operator.ListFrameworks(b.ctx, &apiv1.ListRequest{})
	if err != nil {
		return
	}
	for _, f := range frameworks.GetItems() {
		if f.GetName() != jobsName || b.house.config.RunJobs == nil {
			b.lookAt(f)
		}
	}
}

// jobsName is the name of the framework of the job manager that dev runs.
const jobsName = "jobs"

func (b *breaking) lookAt(f *apiv1.FrameworkView) {
	tasks, _, err := client.All(b.ctx, b.operator.ListTasks, 0, &apiv1.ListTasksRequest{FrameworkId: f.GetId(), All: true})
	if err != nil {
		return
	}
	w := b.known[f.GetId()]
	if w == nil {
		w = &watched{tasks: map[string]string{}}
		b.known[f.GetId()] = w
	}
	var news []string
	if w.state != f.GetState() {
		w.state = f.GetState()
		news = append(news, "is "+w.state)
	}
	counts, runs := map[string]int{}, 0
	for _, t := range tasks {
		if t.GetState() == api.TaskRunning.String() {
			runs++
		}
		if w.tasks[t.GetId()] != t.GetState() {
			w.tasks[t.GetId()] = t.GetState()
			counts[strings.TrimSpace(t.GetState()+" "+t.GetReason())]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		news = append(news, fmt.Sprintf("%s became %s", words.Count(counts[what], "task"), what))
	}
	if len(news) > 0 {
		b.say("%s (%s): %s; %d run", f.GetName(), f.GetId(), strings.Join(news, ", "), runs)
	}
}
