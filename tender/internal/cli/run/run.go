// Package run is the scheduler behind `tender run`: it launches a command as one task or many, brings their output
// here as it comes, and ends with their exit code. It is a framework like any other: it stands on the public SDK and
// the masters' operator service, and reads no flags.
//
// It places its tasks by framework/pack, and does not stand on framework/taskset, because a person at a terminal wants
// something else than a program that has work to do:
//
//   - A task is called NAME.NUMBER, so that it can be typed. A set calls it ITEM.ATTEMPT.NONCE, so that its scheduler may
//     restart; a run never does, and each is a framework of its own.
//   - A task that others have ended, or whose agent is lost, is a failure unless --retry is given. A set tries again.
//   - A task that somebody has killed by hand stays ended, also with --restart. In a set it is started again.
//   - A hundred thousand instances take no more memory than those that run at a time, and no task is started that would
//     run far ahead of the output that is brought here. A set keeps all its items, and knows of no output.
//   - Each end, silence and return is told in a sentence as it happens.
//
// Each of these would be a setting of the set that has one user. Together they are more than what would be saved.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/logtail"
)

// Config says what to run. Masters, Operator, Name, Task, Stdout, Stderr, Say and Warn must be set.
type Config struct {
	Masters  []string
	Operator apiv1.OperatorServiceClient // the leader's service for people: for agents' addresses and explanations
	Name     string                      // the name of the framework, and the beginning of the tasks' IDs
	Role     api.Role                    // default api.DefaultRole
	// Task is what each instance runs; its ID is replaced.
	Task       api.Task
	Instances  int // default 1
	Constraint string
	// Retry starts a task again that ended without its own fault: its agent was lost, drained or given up, or others
	// needed its resources. Default: the task has failed.
	Retry bool
	// Unreachable is how long a task waits for a silent agent before it is started elsewhere, if Retry is set. 0: for
	// ever. If the agent comes back, the task that has run for longer stays.
	Unreachable time.Duration
	// Revocable asks for the task's cpus and mem from what other tasks leave unused.
	Revocable bool
	// Preferred agents are offered first while tasks fit there. Spread is the kind of place over which the tasks are to
	// be spread; "": they may be anywhere.
	Preferred []api.AgentID
	Spread    api.Place
	// Restart is how often an instance is started again whose program failed; negative: always, and also if it ended
	// well. Default: never.
	Restart int
	// Detach makes the run return as soon as each task is on an agent; the tasks go on for this long. Default: it
	// stays.
	Detach time.Duration
	// Dial opens connections to masters. Default TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Agents says how agents are reached.
	Agents Agents
	// Stdout and Stderr take the tasks' output.
	Stdout, Stderr io.Writer
	Teller
	// Progress: Stderr is a terminal, and its last line shows how many of several tasks run and have ended.
	Progress bool
}

// Teller tells people in sentences: Say what happens, Warn what has gone wrong and neither the output of the tasks nor
// the exit code shows.
type Teller struct {
	Say, Warn func(format string, args ...any)
}

// Agents says how to reach agents, and how this run may read there.
type Agents struct {
	// Dial opens connections. Default TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Ticket gets tickets. Default: none are shown.
	Ticket TicketSource
}

const (
	// OutlivesRun is how long the tasks outlive a run that was killed.
	OutlivesRun = 30 * time.Second
	// lookEvery is how often a run that waits checks the reason.
	lookEvery = time.Second
)

// TooLarge is the error of a task that will fit nowhere.
type TooLarge struct{ Asked, Largest string }

func (t *TooLarge) Error() string {
	return fmt.Sprintf("no agent is large enough: the largest has %s; the task asks for %s", t.Largest, t.Asked)
}

// runner carries out one run.
type runner struct {
	config  Config
	job     *job
	outputs sync.WaitGroup
	out     *outputs
	where   *addresses
	tickets *tickets
	http    *http.Client
	reached chan error // why no leader was reached at the beginning, or nil once one is: the SDK looks for one for ever
	waiting waiting
	leaving leaving
	cluster cluster
}

// Run returns when all tasks have ended and all their output was written. The code is the first of theirs that is not
// 0. When ctx ends, the tasks are killed and their ends waited for. If nobody can end them now, the error is a
// *Pending.
func Run(ctx context.Context, config Config) (code int, err error) {
	config.Role = cmp.Or(config.Role, api.DefaultRole)
	config.Instances = max(config.Instances, 1)
	if config.Revocable {
		config.Task.Resources = config.Task.Resources.AsRevocable()
	}
	if config.Spread != "" {
		config.Task.Group = config.Name
	}
	out := newOutputs(config.Stdout, config.Stderr, config.Instances > 1)
	config.Say, config.Warn = out.aside(config.Say), out.aside(config.Warn)
	// What this run started ends with own and not with ctx, because the ends of killed tasks are waited for.
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r := &runner{config: config, out: out, where: newAddresses(config.Operator), tickets: newTickets(config.Agents.Ticket), http: newHTTP(config.Agents.Dial), reached: make(chan error, 1)}
	defer r.http.CloseIdleConnections()
	r.job = newJob(own, config, r.follow)
	session := make(chan error, 1)
	go func() {
		session <- framework.Run(own, framework.Config{
			Masters: config.Masters, Dialer: config.Dial, Token: framework.NoToken, Name: config.Name, Roles: []api.Role{config.Role},
			FailoverTimeout: cmp.Or(config.Detach, OutlivesRun), Constraint: config.Constraint, TeardownAtEnd: config.Detach == 0,
			Suppressed: true, // until the demand is told: an earlier offer would fit only by chance
			Revocable:  config.Revocable,
			Labels:     labelsOf(config),
		}, r.job)
	}()
	go func() { r.reached <- r.trouble() }() // it ends with own
	err = r.watch(ctx, session)
	if err != nil {
		stop()
	}
	r.outputs.Wait()
	r.out.noBar()
	if config.Detach > 0 && r.job.allOver() { // its framework was told to end
		select {
		case ended := <-session:
			session <- ended
		case <-time.After(leaveAfter):
		}
	}
	stop()
	// The session ends with the removal of the framework. If no master answers, the failover time removes it.
	if ended := <-session; err == nil && ended != nil && !r.job.allOver() && !r.job.detached() {
		err = ended
	}
	return r.job.code(), errors.Join(err, r.out.err())
}

// watch waits for the end of all tasks, checks on those that wait, and passes an interrupt on.
func (r *runner) watch(ctx context.Context, session chan error) error {
	reached := r.reached
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	draw := time.NewTicker(drawEvery)
	defer draw.Stop()
	interrupted := ctx.Done()
	for {
		select {
		case <-r.job.over:
			return r.job.teardown()
		case <-r.job.away:
			return r.tellTasks()
		case err := <-reached:
			if reached = nil; err != nil {
				return err
			}
		case err := <-session:
			session <- nil // for Run
			if reached != nil {
				if away := <-reached; away != nil {
					return away // it says more plainly what is wrong
				}
			}
			if err == nil {
				err = errors.New("the framework was removed")
			}
			return err
		case <-interrupted:
			interrupted, r.leaving.since = nil, time.Now()
			if n := r.job.killAll(); n > 0 {
				r.config.Say("ending %s; once more leaves at once", words.Count(n, "task"))
			}
		case <-draw.C:
			r.draw()
		case <-look.C:
			if reached != nil && interrupted != nil {
				continue // nothing has begun, and the same would be asked
			}
			r.job.restartSilent(time.Now())
			look := func() error { return r.look(ctx) }
			if interrupted == nil {
				look = r.leave
			}
			if err := errors.Join(r.sameCluster(), look()); err != nil {
				return err
			}
		}
	}
}

// drawEvery is how often the bar is drawn.
const drawEvery = 200 * time.Millisecond

func (r *runner) draw() {
	if r.config.Progress && r.config.Instances > 1 {
		done, failed, running := r.job.counts()
		r.out.bar(progressBar(r.config.Instances, done, failed, running))
	}
}

// follow copies the output of an attempt. The job calls it once for each attempt, when it is on an agent.
func (r *runner) follow(a *attempt) {
	if r.config.Detach > 0 {
		a.drop()
		return // nobody stays to read it
	}
	task, agent := r.job.ref(a.Task), a.Agent
	r.outputs.Go(func() {
		defer r.job.followedToItsEnd(a)
		if r.config.Instances > 1 {
			select { // the end of a short task tells whether there is any output
			case <-time.After(followAfter):
			case <-a.ended:
			case <-a.context.Done():
			}
		}
		if a.context.Err() != nil {
			return // nobody wants it, or there is none
		}
		source := &logtail.Source{Task: task, Address: r.where.of(agent, task.Framework), Ticket: r.tickets.of(task.Framework, agent), HTTP: r.http}
		if err := r.out.follow(a.context, source, a.ended, r.config.Say); err != nil && a.context.Err() == nil {
			r.config.Warn("%v", err)
		}
	})
}

// followAfter is how long a task, if it is one of several, runs before its output is asked for.
const followAfter = 50 * time.Millisecond

// newHTTP returns the client for the agents' output. Everything from one agent comes on one connection, however many
// tasks there are.
func newHTTP(dial func(ctx context.Context, address string) (net.Conn, error)) *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{}
	if dial != nil {
		transport = logtail.Transport(dial)
	}
	transport.Protocols, transport.IdleConnTimeout = &protocols, 10*time.Second
	transport.HTTP2 = &http.HTTP2Config{
		MaxReceiveBufferPerConnection: 8 << 20, MaxReceiveBufferPerStream: 64 << 10,
		SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second, // a connection that hangs is dialed again
	}
	return &http.Client{Transport: transport}
}
