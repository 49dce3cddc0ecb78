package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/tools/devcluster"
)

// lives measures whole lives of tasks that do nothing: offered, launched, RUNNING, FINISHED, acknowledged.
func lives(ctx context.Context, cluster *devcluster.Cluster, o options) (err error) {
	self, err := executor.Self("noop")
	if err != nil {
		return err
	}
	b, err := startBare(o.dir)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	task := func(int) api.Task { return api.Task{Executor: self} }
	var rates, cpus, ratios, shares, bareRates, bareCPUs []float64
	for i := range o.runs + 1 {
		plain, plainCPU, err := plainSpawn(o.spawns, spawners)
		if err != nil {
			return err
		}
		bareRate, bareCPU, err := b.lives(ctx, o.tasks, 2000)
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		rate, cpu, err := throughput(ctx, cluster, &load{task: task, total: o.tasks, window: 2000})
		if err != nil {
			return err
		}
		if i > 0 {
			bareRates, bareCPUs = append(bareRates, bareRate/plain), append(bareCPUs, bareCPU/plainCPU)
			rates, cpus = append(rates, rate), append(cpus, cpu)
			ratios, shares = append(ratios, rate/plain), append(shares, cpu/plainCPU)
		}
	}
	row("lives of empty tasks through the whole stack", perSecond(rates),
		fmt.Sprintf("%.1f for each plain fork+exec+wait; %.0f µs of CPU a task, %.2f of such a spawn: masters, agents, executor and framework",
			median(ratios), median(cpus), median(shares)))
	atLeast("lives for each plain spawn", median(ratios), 6)
	limited(median(bareRates))
	atMost("CPU of a life, in plain spawns", median(shares), 0.2)
	limited(median(bareCPUs))
	return nil
}

// noop is a task that does nothing, or one that floods.
func noop(ctx context.Context, task *executor.Task) error {
	if string(task.Data) == floodWord {
		return floodTask(ctx, task)
	}
	return nil
}

// throughput returns tasks per second, and the µs of CPU per task of everything that took part. The cluster is a child
// of this process, so the descendants of this process are all of it, counted once.
func throughput(ctx context.Context, cluster *devcluster.Cluster, l *load) (rate, cpu float64, err error) {
	if err := runLoad(ctx, cluster, l); err != nil {
		return 0, 0, err
	}
	if l.dropped > 0 {
		log.Printf("%d launches were dropped and made again: the machine is not quiet", l.dropped)
	}
	used, counted := cpuOf(os.Getpid())-l.cpuThen, float64(l.total-l.before)
	return counted / l.took.Seconds(), used * 1e6 / counted, nil
}

// spawnsBefore is how many commands a framework runs before they are counted. From then on an agent, which keeps the
// sandboxes of a thousand ended tasks, also removes old ones.
const spawnsBefore = 1200

// commands are the commands of a framework, in turn with plain spawns: of each run how many ran in a second, how many for
// each plain spawn, and the µs of CPU of each.
type commands struct{ rates, plains, ratios, cpus []float64 }

// run runs /bin/true as command tasks, in turn with a plain fork, exec and wait. What is measured beside them is told what
// of the plain ones ran in a second.
func (c *commands) run(ctx context.Context, cluster *devcluster.Cluster, o options, beside func(plain float64, counts bool) error) error {
	task := func(int) api.Task { return api.Task{Command: &api.Command{Argv: []string{"/bin/true"}}} }
	for i := range o.runs + 1 {
		plain, _, err := plainSpawn(o.spawns, spawners)
		if err == nil {
			err = beside(plain, i > 0)
		}
		if err != nil {
			return err
		}
		rate, cpu, err := throughput(ctx, cluster, &load{task: task, total: spawnsBefore + o.spawns, before: spawnsBefore, window: 200})
		if err != nil {
			return err
		}
		if i > 0 {
			c.rates, c.plains = append(c.rates, rate), append(c.plains, plain)
			c.ratios, c.cpus = append(c.ratios, rate/plain), append(c.cpus, cpu)
		}
	}
	return nil
}

// perSecond says how many a second there were, and between which numbers that was.
func perSecond(rates []float64) string {
	return fmt.Sprintf("%.0f/s (%.0f to %.0f)", median(rates), slices.Min(rates), slices.Max(rates))
}

// forEachPlain says the same of how many there were for each plain spawn.
func forEachPlain(ratios []float64) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
}

// spawn runs commands, in turn with what makes the same walls and nothing else.
func spawn(ctx context.Context, cluster *devcluster.Cluster, o options) error {
	var c commands
	var walled, limits []float64 // limits are for each plain spawn
	if err := c.run(ctx, cluster, o, func(plain float64, counts bool) error {
		limit, err := walledSpawn(o.dir, o.spawns, spawners)
		if err != nil {
			return fmt.Errorf("a loop that makes the same walls: %w", err)
		}
		if counts {
			walled, limits = append(walled, limit), append(limits, limit/plain)
		}
		return nil
	}); err != nil {
		return err
	}
	row("a loop that makes the same walls and nothing else", perSecond(walled), fmt.Sprintf("%.2f of plain fork+exec+wait", median(limits)))
	row("/bin/true as command tasks", perSecond(c.rates), fmt.Sprintf("plain fork+exec+wait, two workers: %.0f/s; ratio %s; %.0f µs of CPU a task",
		median(c.plains), forEachPlain(c.ratios), median(c.cpus)))
	atLeast("commands of a framework for each plain spawn", median(c.ratios), 0.6)
	limited(median(limits))
	return spawnByRun(ctx, cluster, o, median(limits))
}

// spawnByRun runs /bin/true as the instances of one tender run, in turn with a plain fork, exec and wait. What the
// command itself takes to begin and to end counts. limit is how many of them there could be for each plain spawn.
func spawnByRun(ctx context.Context, cluster *devcluster.Cluster, o options, limit float64) error {
	var rates, ratios []float64
	for i := range o.runs + 1 {
		plain, _, err := plainSpawn(o.spawns, spawners)
		if err != nil {
			return err
		}
		began := time.Now()
		command := exec.CommandContext(ctx, o.binary, "run", "--quiet", "--master", cluster.MasterAddresses(),
			"--instances", strconv.Itoa(o.spawns), "--cpus", "0.01", "--mem", "1", "--", "/bin/true")
		if said, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("tender run: %w: %s", err, said)
		}
		if rate := float64(o.spawns) / time.Since(began).Seconds(); i > 0 {
			rates, ratios = append(rates, rate), append(ratios, rate/plain)
		}
	}
	row("/bin/true by tender run", perSecond(rates), forEachPlain(ratios)+" of plain fork+exec+wait")
	atLeast("commands of tender run for each plain spawn", median(ratios), 0.6)
	limited(limit)
	return nil
}

// spawners is how many workers of plainSpawn keep two processors busy.
const spawners = 2

// plainSpawn runs /bin/true n times with so many workers, and returns processes per second, and the µs of CPU of each.
func plainSpawn(n, of int) (rate, cpu float64, err error) {
	before, began := cpuOf(os.Getpid()), time.Now()
	work := make(chan struct{}, n)
	for range n {
		work <- struct{}{}
	}
	close(work)
	var workers sync.WaitGroup
	failed := make(chan error, of)
	for range of {
		workers.Go(func() {
			for range work {
				if err := spawnTrue(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	workers.Wait()
	close(failed)
	took := time.Since(began).Seconds()
	return float64(n) / took, (cpuOf(os.Getpid()) - before) / float64(n) * 1e6, <-failed
}

func spawnTrue() error {
	process, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil {
		return err
	}
	_, err = process.Wait()
	return err
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// quantile returns the value below which the share q of the values lies.
func quantile(values []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
