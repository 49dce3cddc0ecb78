// Package run is the scheduler behind `tender run`: it launches a command as one task or many, brings their output
// here as it comes, and ends with their exit code. It is a framework like any other: it stands on the public SDK and
// the masters' operator service, and reads no flags.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
)

// Config says what to run. Masters, Operator, Name, Task, Stdout, Stderr and Say must be set.
type Config struct {
	Masters  []string
	Operator apiv1.OperatorServiceClient // at whoever leads: for agents' addresses and explanations
	Name     string                      // of the framework; also the start of the tasks' IDs
	Role     api.Role                    // default api.DefaultRole
	// Task is what each instance runs; its ID is replaced.
	Task       api.Task
	Instances  int // default 1
	Constraint string
	// Retry starts a task again whose agent was lost, or that was revoked. Default: that is a failure.
	Retry bool
	// Revocable asks for the task's cpus and mem out of what other tasks leave unused.
	Revocable bool
	// Stdout and Stderr take the tasks' output.
	Stdout, Stderr io.Writer
	// Say tells people what happens, in a sentence.
	Say func(format string, args ...any)
	// Progress: also say how many tasks wait, run and have ended.
	Progress bool
}

const (
	// failoverTimeout is how long the tasks outlive a run that was killed.
	failoverTimeout = 30 * time.Second
	// lookEvery is how often a run that waits looks for the reason.
	lookEvery = time.Second
)

// TooLarge is why a task will fit nowhere.
type TooLarge struct{ Asked, Largest string }

func (t *TooLarge) Error() string {
	return fmt.Sprintf("no agent is large enough: the largest has %s; the task asks for %s", t.Largest, t.Asked)
}

// runner is one run.
type runner struct {
	config  Config
	job     *job
	outputs sync.WaitGroup
	out     *outputs
	where   *addresses
	waiting waiting
	leaving leaving
}

// Run returns when all tasks have ended and all their output is written. The code is the first of theirs that is not 0.
// When ctx ends, the tasks are killed and their ends awaited; what nobody can end just now is a *Pending.
func Run(ctx context.Context, config Config) (code int, err error) {
	if config.Role == "" {
		config.Role = api.DefaultRole
	}
	config.Instances = max(config.Instances, 1)
	if config.Revocable {
		config.Task.Resources = config.Task.Resources.AsRevocable()
	}
	r := &runner{
		config: config,
		out:    newOutputs(config.Stdout, config.Stderr, config.Instances > 1),
		where:  newAddresses(config.Operator),
	}
	r.job = newJob(config, r.follow)
	// What this run started ends with it, and not with ctx: the ends of killed tasks are awaited.
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r.job.own = own
	session := make(chan error, 1)
	go func() {
		session <- framework.Run(own, framework.Config{
			Masters: config.Masters, Name: config.Name, Roles: []api.Role{config.Role},
			FailoverTimeout: failoverTimeout, Constraint: config.Constraint, TeardownAtEnd: true,
			Revocable: config.Revocable,
		}, r.job)
	}()
	err = r.watch(ctx, session, stop)
	if err != nil {
		stop()
	}
	r.outputs.Wait()
	stop()
	// The session's end is the removal of the framework; should no master answer, its failover time removes it.
	if ended := <-session; err == nil && ended != nil && !r.job.allOver() {
		err = ended
	}
	return r.job.code(), errors.Join(err, r.out.err())
}

// watch waits for the end of all tasks, looks after those that wait, and passes an interrupt on.
func (r *runner) watch(ctx context.Context, session chan error, stop func()) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	interrupted := ctx.Done()
	for {
		select {
		case <-r.job.over:
			return nil
		case err := <-session:
			session <- nil // for Run
			if err == nil {
				err = errors.New("the framework was removed")
			}
			return err
		case <-interrupted:
			interrupted, r.leaving.since = nil, time.Now()
			if n := r.job.killAll(); n > 0 {
				r.config.Say("ending %s; once more leaves at once", count(n, "task"))
			}
		case <-look.C:
			look := func() error { return r.look(ctx) }
			if interrupted == nil {
				look = r.leave
			}
			if err := look(); err != nil {
				return err
			}
		}
	}
}

// follow brings the output of an attempt here. The job calls it once for each, when an agent has it.
func (r *runner) follow(i *instance) {
	attempt := *i
	for _, stream := range r.out.streams(string(attempt.id)) {
		r.outputs.Go(func() {
			err := stream.copy(r.job.own, r.job.ref(attempt.id), r.where.of(attempt.agent), attempt.ended)
			if err != nil && r.job.own.Err() == nil {
				r.config.Say("%v", err)
			}
		})
	}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// client for the agents' output: as many streams at once as there are tasks.
var httpClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 10 * time.Second}}
