// Command jobs is what `make demo-jobs` runs: a cluster of three masters and four agents, each a process, and two
// job managers. It submits one job of each type, changes the service, kills the active manager, an agent and the leading
// master without a warning meanwhile, has a bad change go back by itself, and says how each job has ended. It fails
// where one did not end as it should.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/dev/devcluster"
	"github.com/tenderhq/tender/internal/pause"
)

const (
	tender  = "bin/tender"
	masters = 3
	agents  = 4
)

// hangAfter limits the demo. It takes a minute or two on a laptop.
const hangAfter = 15 * time.Minute

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("demo: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, hangAfter, fmt.Errorf("the demo has not ended for %v", hangAfter))
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(errors.Join(err, context.Cause(ctx)))
	}
	log.Print("every job is as it should be; nothing is left running")
}

// jobFiles are the jobs of the demo by name. The service changes with each of its versions.
var jobFiles = map[string]string{
	"sum": `type = "batch"
task.command = "sleep 1"
batch = { completions = 60, parallelism = 8 }`,
	"etl": `type = "dag"
[[steps]]
name = "fetch"
task.command = "sleep 5"
[[steps]]
name = "convert"
after = ["fetch"]
completions = 10
task.command = "sleep 2"
[[steps]]
name = "mend"
after = ["convert"]
when = "failure"
task.command = "true"
[[steps]]
name = "tell"
after = ["convert", "mend"]
when = "always"
task.command = 'test "$TENDER_JOB_AFTER_CONVERT" = success'`,
	"night": `type = "cron"
task.command = "sleep 1"
cron = { schedule = "* * * * *" }`,
	"logs": `type = "system"
task.command = "exec sleep 100000"`,
	"sim": `type = "gang"
task.command = 'test "$(wc -l < members.txt)" -eq 3 && sleep 20'
gang = { members = 3 }`,
}

func serviceFile(command string) string {
	return fmt.Sprintf(`type = "service"
task.command = %q
task.spread = "agent"
service = { count = 3, proof = "3s" }`, command)
}

// demo is the cluster with its job managers.
type demo struct {
	cluster  *devcluster.Cluster
	managers []*devcluster.Process
}

func run(ctx context.Context) (err error) {
	log.Printf("starting %d masters, %d agents and two job managers", masters, agents)
	cluster, err := devcluster.Start(ctx, devcluster.Options{Binary: tender, Masters: masters, Agents: agents, Processes: true,
		Args: []string{"--agent-processes", "--jobs=false"}})
	if err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	d := &demo{cluster: cluster}
	defer func() {
		for _, one := range d.managers {
			err = errors.Join(err, one.Kill())
		}
		err = errors.Join(err, cluster.Stop())
	}()
	for i := range 2 {
		one := &devcluster.Process{Binary: tender, Args: []string{"jobs", "--master", cluster.MasterAddresses()},
			Log: filepath.Join(cluster.Dir, fmt.Sprintf("manager-%d.log", i+1))}
		if err := one.Start(); err != nil {
			return err
		}
		d.managers = append(d.managers, one)
	}
	return d.play(ctx)
}

func (d *demo) play(ctx context.Context) error {
	for _, err := d.active(); err != nil; _, err = d.active() {
		if !pause.For(ctx, 100*time.Millisecond) {
			return err
		}
	}
	for _, name := range []string{"sum", "etl", "night", "logs", "sim"} {
		if err := d.job(ctx, "submit", name, jobFiles[name]); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return d.job(ctx, "run", "web", serviceFile("exec sleep 100000")) },
		func(ctx context.Context) error { return d.job(ctx, "submit", "sum", jobFiles["sum"]) }, // again: it changes nothing
		func(ctx context.Context) error { return d.job(ctx, "update", "web", serviceFile("exec sleep 100001")) },
		d.killManager,
		func(ctx context.Context) error { return d.awaitService(ctx, 2) },
		d.killAgent,
		func(ctx context.Context) error { return d.job(ctx, "update", "web", serviceFile("sleep 1; exit 3")) },
		d.killLeader,
		func(ctx context.Context) error { return d.awaitService(ctx, 2) },
		d.awaitEnds,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tender runs a command of the command line.
func (d *demo) tender(ctx context.Context, stdin string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, tender, append(args, "--master", d.cluster.MasterAddresses())...)
	command.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return out, fmt.Errorf("tender %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out, nil
}

func (d *demo) job(ctx context.Context, verb, name, file string) error {
	out, err := d.tender(ctx, fmt.Sprintf("name = %q\n%s\n", name, file), "job", verb, "-")
	if err == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		log.Print(first)
	}
	return err
}

// status returns a job as the active manager shows it.
func (d *demo) status(ctx context.Context, name string) (*apiv1.JobStatus, error) {
	out, err := d.tender(ctx, "", "job", "status", name, "-o", "json")
	if err != nil {
		return nil, err
	}
	status := new(apiv1.JobStatus)
	return status, protojson.Unmarshal(out, status)
}

// await looks at a job until it is as it should be. While parts of the cluster are down nobody may answer.
func (d *demo) await(ctx context.Context, name, what string, good func(*apiv1.JobStatus) (bool, error)) error {
	for {
		status, err := d.status(ctx, name)
		if err == nil {
			is, bad := good(status)
			if bad != nil {
				return fmt.Errorf("%s: %w", name, bad)
			}
			if is {
				log.Printf("%s: %s", name, what)
				return nil
			}
			err = fmt.Errorf("%v", status)
		}
		if !pause.For(ctx, time.Second) {
			return fmt.Errorf("waiting for %s to be: %s; it is %w", name, what, err)
		}
	}
}

func (d *demo) awaitService(ctx context.Context, version int32) error {
	what := fmt.Sprintf("three tasks run version %d, and no change is under way", version)
	err := d.await(ctx, "web", what, func(j *apiv1.JobStatus) (bool, error) {
		return j.GetRoll() == nil && j.GetVersion() == version && j.GetSubJobs()[0].GetRunning() == 3, nil
	})
	if err != nil {
		return err
	}
	status, err := d.status(ctx, "web")
	if err != nil {
		return err
	}
	for _, note := range status.GetNotes() {
		log.Printf("  web said at %s: %s", note.GetAt().AsTime().Format(time.TimeOnly), note.GetText())
	}
	return nil
}

// awaitEnds checks how all jobs have ended.
func (d *demo) awaitEnds(ctx context.Context) error {
	for _, one := range []struct {
		name string
		done int32
	}{{"sum", 60}, {"etl", 12}, {"sim", 3}} {
		err := d.await(ctx, one.name, fmt.Sprintf("it has succeeded, %d tasks ended well", one.done), func(j *apiv1.JobStatus) (bool, error) {
			var n int32
			for _, sub := range j.GetSubJobs() {
				n += sub.GetDone()
			}
			if j.GetPhase() == "FAILED" || j.GetPhase() == "SUCCEEDED" && n != one.done {
				return false, fmt.Errorf("it is %s with %d done: %s", j.GetPhase(), n, j.GetWhy())
			}
			return j.GetPhase() == "SUCCEEDED", nil
		})
		if err != nil {
			return err
		}
	}
	err := d.await(ctx, "night", "a run has ended well, and the next is due", func(j *apiv1.JobStatus) (bool, error) {
		runs := j.GetRuns()
		return len(runs) > 0 && runs[len(runs)-1].GetState() == "success" && j.GetNextRun() != nil, nil
	})
	if err != nil {
		return err
	}
	return d.await(ctx, "logs", fmt.Sprintf("it runs on each of the %d agents that are left", agents-1), func(j *apiv1.JobStatus) (bool, error) {
		on := map[string]bool{}
		for _, task := range j.GetTasks() {
			if task.GetState() == "RUNNING" {
				on[task.GetAgentId()] = true
			}
		}
		return len(on) == agents-1, nil
	})
}

// active returns the index of the active manager: the latest one whose log says so.
func (d *demo) active() (int, error) {
	for i, one := range d.managers {
		text, err := os.ReadFile(one.Log)
		if err != nil {
			return 0, err
		}
		if bytes.Contains(text, []byte("the jobs of the store are here")) {
			return i, nil
		}
	}
	return 0, errors.New("no job manager is active")
}

func (d *demo) killManager(context.Context) error {
	at, err := d.active()
	if err != nil {
		return err
	}
	log.Printf("kill -9: job manager %d, the active one", at+1)
	return d.managers[at].Kill()
}

// killAgent kills an agent that has a task of the service.
func (d *demo) killAgent(ctx context.Context) error {
	status, err := d.status(ctx, "web")
	if err != nil {
		return err
	}
	for _, agent := range d.cluster.Agents {
		for _, task := range status.GetTasks() {
			if task.GetAgentId() == agent.ID {
				log.Printf("kill -9 %d: %s, which has %s", agent.PID, agent.ID, task.GetTaskId())
				return syscall.Kill(agent.PID, syscall.SIGKILL)
			}
		}
	}
	return fmt.Errorf("no agent of %v has a task of %v", d.cluster.Agents, status.GetTasks())
}

func (d *demo) killLeader(ctx context.Context) error {
	out, err := d.tender(ctx, "", "get", "masters", "-o", "json")
	if err != nil {
		return err
	}
	var list struct {
		Items []struct{ ID, State string }
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		for _, master := range d.cluster.Masters {
			if item.State == "leader" && item.ID == master.ID {
				log.Printf("kill -9 %d: master %s, which leads", master.PID, master.ID)
				return syscall.Kill(master.PID, syscall.SIGKILL)
			}
		}
	}
	return fmt.Errorf("no master leads: %s", bytes.TrimSpace(out))
}
