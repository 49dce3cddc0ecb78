package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/tools/devcluster"
)

// jobAgents is how many agents the cluster of jobs begins with.
const jobAgents = 4

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

// managed is a cluster with its job managers.
type managed struct {
	stage
	managers []*devcluster.Process
}

// playJobs starts three masters, four agents, each a process, and two job managers. It submits one job of each type,
// changes the service, kills the active manager, an agent and the leading master without a warning meanwhile, has a bad
// change go back by itself, and says how each job has ended.
func playJobs(ctx context.Context, binary string) (err error) {
	log.Printf("starting 3 masters, %d agents and two job managers", jobAgents)
	d := &managed{}
	d.stage, err = open(ctx, devcluster.Options{Binary: binary, Masters: 3, Agents: jobAgents, Processes: true, Args: []string{"--agent-processes", "--jobs=false"}})
	if err != nil {
		return err
	}
	defer func() {
		for _, manager := range d.managers {
			err = errors.Join(err, manager.Kill())
		}
		err = errors.Join(err, d.Stop())
	}()
	for i := range 2 {
		manager := &devcluster.Process{Binary: binary, Args: []string{"jobs", "--master", d.MasterAddresses()},
			Log: filepath.Join(d.Dir, fmt.Sprintf("manager-%d.log", i+1))}
		if err := manager.Start(); err != nil {
			return err
		}
		d.managers = append(d.managers, manager)
	}
	return d.play(ctx)
}

func (d *managed) play(ctx context.Context) error {
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

func (d *managed) job(ctx context.Context, verb, name, file string) error {
	out, err := d.tender(ctx, fmt.Sprintf("name = %q\n%s\n", name, file), "job", verb, "-")
	if err == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		log.Print(first)
	}
	return err
}

// status returns a job as the active manager shows it.
func (d *managed) status(ctx context.Context, name string) (*apiv1.JobStatus, error) {
	out, err := d.tender(ctx, "", "job", "status", name, "-o", "json")
	if err != nil {
		return nil, err
	}
	status := new(apiv1.JobStatus)
	return status, protojson.Unmarshal(out, status)
}

// await looks at a job until it is as it should be. While parts of the cluster are down nobody may answer.
func (d *managed) await(ctx context.Context, name, what string, good func(*apiv1.JobStatus) (bool, error)) error {
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

func (d *managed) awaitService(ctx context.Context, version int32) error {
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
func (d *managed) awaitEnds(ctx context.Context) error {
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
	return d.await(ctx, "logs", fmt.Sprintf("it runs on each of the %d agents that are left", jobAgents-1), func(j *apiv1.JobStatus) (bool, error) {
		on := map[string]bool{}
		for _, task := range j.GetTasks() {
			if task.GetState() == "RUNNING" {
				on[task.GetAgentId()] = true
			}
		}
		return len(on) == jobAgents-1, nil
	})
}

// active returns the index of the active manager: the latest one whose log says so.
func (d *managed) active() (int, error) {
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

func (d *managed) killManager(context.Context) error {
	at, err := d.active()
	if err != nil {
		return err
	}
	log.Printf("kill -9: job manager %d, the active one", at+1)
	return d.managers[at].Kill()
}

// killAgent kills an agent that has a task of the service.
func (d *managed) killAgent(ctx context.Context) error {
	status, err := d.status(ctx, "web")
	if err != nil {
		return err
	}
	for _, agent := range d.Agents {
		for _, task := range status.GetTasks() {
			if task.GetAgentId() == agent.ID {
				log.Printf("kill -9 %d: %s, which has %s", agent.PID, agent.ID, task.GetTaskId())
				return syscall.Kill(agent.PID, syscall.SIGKILL)
			}
		}
	}
	return fmt.Errorf("no agent of %v has a task of %v", d.Agents, status.GetTasks())
}
