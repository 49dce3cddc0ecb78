package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/internal/testing/chaos"
	"github.com/tenderhq/tender/internal/testing/program"
)

// TestChaos breaks a real cluster a few times. With TENDER_TEST_LONG it does so a hundred times, and each round must
// heal in time. `make chaos` takes a number of rounds.
func TestChaos(t *testing.T) {
	rounds := []string{"-rounds", "4", "-heal", "0"}
	if os.Getenv("TENDER_TEST_LONG") != "" {
		rounds = []string{"-rounds", "100"}
	}
	runChaos(t, rounds...)
}

// TestTrust: in a cluster with certificates another authority follows, a framework and a token are revoked, and a
// stranger tries what it can, while tasks run. `make chaos ARGS='-only trust'` does so again and again, and waits for
// renewals. A member that is too slow for the overlap of two authorities loses its certificate, so this is for machines
// that are not too busy.
func TestTrust(t *testing.T) {
	if os.Getenv("TENDER_TEST_LONG") == "" {
		t.Skip("TENDER_TEST_LONG is not set: it takes a minute, and a machine that is not too busy")
	}
	runChaos(t, "-rounds", "4", "-agents", "2", "-heal", "0", "-life", "90s", "-only", "trust/rotation,trust/principal,trust/token,trust/stranger")
}

// TestGrow changes the quorum to 1, 3, 5 and again 3 masters, while tasks run.
func TestGrow(t *testing.T) { runChaos(t, "-grow", "-heal", "0") }

// TestAgentWithExecutors kills an agent with a few executors a few times, without namespaces for tasks and with them;
// `make chaos-agent` does so a thousand times with fifty.
func TestAgentWithExecutors(t *testing.T) {
	for _, isolation := range []string{"auto", "namespaces"} {
		t.Run(isolation, func(t *testing.T) {
			if isolation == "namespaces" && os.Geteuid() != 0 {
				t.Skip("only root makes namespaces for tasks")
			}
			runChaos(t, "-rounds", "4", "-executors", "5", "-isolation", isolation, "-heal", "0")
		})
	}
}

// programs builds tender and this command once. The folder is removed after the last test.
var programs = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "tender-chaos-"); err != nil {
		return "", err
	}
	built = dir
	return dir, program.Build(dir, "", "tools/chaos")
})

var built string // the folder of the programs; "" if none was built

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(built); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runChaos(t *testing.T, args ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a dozen processes")
	}
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc to know who connects")
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "-binary", filepath.Join(dir, "tender"))
	if deadline, limited := t.Deadline(); limited { // soon enough that what it hangs at is told, and all that it has started ends
		args = append(args, "-limit", (time.Until(deadline) - time.Minute).String())
	}
	command := exec.CommandContext(t.Context(), filepath.Join(dir, "chaos"), args...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = time.Minute // what it has left behind when it was killed may hold its output open
	out, err := command.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// plan returns the faults of a run with these options.
func plan(o options) []chaos.Fault { return chaos.Rounds(o.seed, o.rounds, o.acts()).Faults }

// TestPlan: a long run has every fault. A short one has the hardest, and none that takes long or needs mounts.
func TestPlan(t *testing.T) {
	o := options{rounds: 40, seed: 5, mounts: true}
	seen := map[chaos.FaultKind]bool{}
	for _, f := range plan(o) {
		seen[f.Do] = true
	}
	if len(seen) != len(o.acts()) {
		t.Errorf("a long run breaks only %v", seen)
	}
	for seed := range uint64(20) {
		short := plan(options{rounds: 3, seed: seed})
		if len(short) != 3 || short[0].Do != chaos.KillLeader {
			t.Errorf("three rounds: %v", short)
		}
		for _, f := range short {
			if how := f.Do.How(); how == "sleep" || how == "full" || how == "reboot" {
				t.Errorf("a short run without mounts has %v", f)
			}
		}
	}
	for _, f := range plan(options{rounds: 9, only: "sleep/leader"}) {
		if f.Do != "sleep/leader" || f.For != 30*time.Second {
			t.Errorf("only sleep/leader: %v", f)
		}
	}
}

// TestPlanInMemory: what `make chaos` does to processes with this seed is done to whole masters, agents and schedulers
// in memory, round after round, in virtual time. Faults that only a system can have are left out: to stop a process, or
// to fill a master's disk.
func TestPlanInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute and a half of a whole cluster")
	}
	o := options{rounds: 30, seed: 1, mounts: true, only: "kill/leader,kill/follower,kill/agent,kill/scheduler,cut,gone,reboot,full/agent"}
	plan := chaos.Rounds(o.seed, o.rounds, o.acts())
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 5}, func(c *frameworktest.Handle) {
		c.Start(framework.Config{Name: "naps", FailoverTimeout: time.Hour}, &naps{left: 300})
		c.Chaos(frameworktest.Chaos{Plan: plan, Again: (*frameworktest.Framework).Scheduler})
		c.AwaitSettled()
		if f := c.Frameworks()[0]; f.Count(api.TaskFinished) < 100 {
			t.Errorf("only %d tasks have finished", f.Count(api.TaskFinished))
		}
	})
}

// naps launches one short task on each offer, until all were launched.
type naps struct{ left int }

func (n *naps) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	for _, offer := range offers {
		if n.left == 0 {
			return answers
		}
		n.left--
		answers = append(answers, api.Launch(offer, api.Task{
			ID: api.TaskID(fmt.Sprint("nap-", n.left)), Resources: api.Scalars(0.1, 16), Command: &api.Command{Shell: nap},
		}))
	}
	return answers
}

func (*naps) Update(context.Context, api.Status) error { return nil }

// TestPlanOfTrust: acts on certificates need a cluster that has some, and come after all faults.
func TestPlanOfTrust(t *testing.T) {
	for _, o := range []options{{life: time.Minute, only: "trust"}, {life: time.Minute, only: "stop/agent,trust/to"}, {only: "trust"}} {
		var names []string
		for _, a := range o.acts() {
			names = append(names, string(a.Do))
		}
		want := map[string]string{
			"trust":               "trust/rotation trust/principal trust/token trust/stranger trust/back trust/renewals",
			"stop/agent,trust/to": "stop/agent trust/token",
		}[o.only]
		if o.life == 0 {
			want = ""
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%+v: %s, want %s", o, got, want)
		}
	}
}

// TestSessionsEnded: sessions that looked for a leader, or were refused, do not count as broken.
func TestSessionsEnded(t *testing.T) {
	ended := sessionsEnded([]byte(`# HELP tender_calls_total Calls.
tender_calls_total{kind="internal",method="/tender.v1.AgentService/Session"} 2
tender_calls_total{kind="not leader",method="/tender.v1.AgentService/Session"} 3
tender_calls_total{kind="denied",method="/tender.v1.SchedulerService/Session"} 4
tender_calls_total{kind="ok",method="/tender.v1.SchedulerService/Session"} 5
tender_calls_total{kind="ok",method="/tender.v1.StoreService/Get"} 6
tender_tasks{state="RUNNING"} 7
`))
	if sum := ended[`kind="internal",method="/tender.v1.AgentService/Session"`] + ended[`kind="ok",method="/tender.v1.SchedulerService/Session"`]; len(ended) != 2 || sum != 7 {
		t.Errorf("sessions that ended: %v", ended)
	}
}

// TestJudges: broken promises are noticed.
func TestJudges(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "proof"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := &cluster{dir: dir, ledger: newLedger()}
	for _, line := range []string{
		"1 launch good", "2 end good FINISHED", "3 end good FINISHED", "3 end good UNKNOWN",
		"4 launch twice", "5 end twice FINISHED", "6 end twice FAILED",
		"7 launch unproved", "8 end unproved FINISHED",
		"9 launch denied", "10 end denied DROPPED",
		"11 launch open",
		"20 launch struck a1", "30 end struck GONE",
		"21 launch elsewhere a2", "30 end elsewhere GONE",
		"21 launch otherwise a1", "30 end otherwise FAILED",
		"21 launch before a1", "24 end before GONE",
		"21 launch restarted a1", "30 end restarted GONE",
	} {
		e, err := parseEntry(line)
		if err != nil {
			t.Fatal(err)
		}
		c.ledger.add(e)
	}
	for _, proof := range []string{"good", "twice", "denied", "struck", "elsewhere", "otherwise", "before", "restarted", "restarted" + again} {
		if err := os.WriteFile(filepath.Join(dir, "proof", proof), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &report{harms: []harm{{agent: "a1", began: time.Unix(0, 25), over: time.Unix(0, 35), ends: "GONE"}}}
	if broken := c.judgeTasks(r); len(broken) != 8 {
		t.Errorf("tasks: %q", broken)
	}
}

// TestWhoIsKilledIsNotHopeless: only what a process does by itself counts, not how often it was killed.
func TestWhoIsKilledIsNotHopeless(t *testing.T) {
	n := &node{command: new(exec.Cmd)}
	for range 2 * hopelessEnds {
		if n.endedItself(n.command) {
			t.Fatal("it was killed, and is started as if it had ended by itself")
		}
	}
	if n.hopeless() {
		t.Error("it is taken for hopeless because it was killed often")
	}
	n.wanted = true
	for n.endedItself(n.command) {
	}
	if !n.hopeless() {
		t.Error("it ends by itself again and again, and is not taken for hopeless")
	}
}
