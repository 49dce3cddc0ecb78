package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
)

// runs are the executors' processes that this agent has started or found.
type runs struct {
	mutex     sync.Mutex
	processes map[core.Run]*runState
}

// runState is one run, from StartExecutor on.
type runState struct {
	run     core.Run
	folder  string             // of the executor
	said    int64              // how long its stderr was before the run
	user    int                // as whom it runs
	process executor.Process   // nil until it is forked
	abandon context.CancelFunc // of the fork
}

func (r *runs) put(state *runState) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.processes[state.run] = state
}

func (r *runs) get(run core.Run) *runState {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.processes[run]
}

func (r *runs) drop(run core.Run) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.processes, run)
}

func (r *runs) forked(state *runState, process executor.Process, user int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	state.process, state.user = process, user
}

// runsAs tells whether a run of this executor belongs to a user; anyAs, whether a run of any executor does.
func (r *runs) runsAs(ref api.ExecutorRef, user int) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for run, state := range r.processes { // order: irrelevant because one is enough
		if run.Executor == ref && state.process != nil && state.user == user {
			return true
		}
	}
	return false
}

func (r *runs) anyAs(user int) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, state := range r.processes { // order: irrelevant because one is enough
		if state.process != nil && state.user == user {
			return true
		}
	}
	return false
}

func (r *runs) process(run core.Run) executor.Process {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if state := r.processes[run]; state != nil {
		return state.process
	}
	return nil
}

// living is the process of an executor that runs; 0: it does not.
func (r *runs) living(ref api.ExecutorRef) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for run, state := range r.processes { // order: irrelevant because an executor runs once at a time
		if run.Executor == ref && state.process != nil {
			if id := state.process.ID(); proc.Alive(id.PID, id.Start) {
				return id.PID
			}
		}
	}
	return 0
}

// around is the process of the executor whose folder holds that of a task of its; 0: none runs.
func (r *runs) around(task string) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, state := range r.processes { // order: irrelevant because an executor runs once at a time
		if state.process != nil && state.folder == filepath.Dir(filepath.Dir(task)) {
			if id := state.process.ID(); proc.Alive(id.PID, id.Start) {
				return id.PID
			}
		}
	}
	return 0
}

// forget drops all runs: those of another core's life are not this one's, whatever their numbers.
func (r *runs) forget() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	clear(r.processes)
}

func (r *runs) all() []*runState {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Collect(maps.Values(r.processes))
}

// findRuns looks for the processes of the agent before this one.
func (a *Agent) findRuns() (alive []core.Run) {
	a.runs.forget()
	for _, started := range a.core.Runs() {
		if process := a.config.Launcher.Find(started.Process); process != nil && a.sameBoot() {
			folder := a.core.ExecutorFolder(started.Run.Executor)
			a.runs.put(&runState{run: started.Run, folder: folder, user: a.userOf(folder), process: process, abandon: func() {}})
			alive = append(alive, started.Run)
		}
	}
	return alive
}

// sweepCells ends what runs in cells that this agent does not know: an agent was killed before it had written of them, or
// a test was. Executors that have died themselves keep theirs until the core has their tasks killed.
func (a *Agent) sweepCells(ctx context.Context) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var known []api.ExecutorRef
	for _, started := range a.core.Runs() {
		known = append(known, started.Run.Executor)
	}
	if err := a.cells.Sweep(ctx, known); err != nil {
		a.log.Error().Err(err).Msg("processes of executors that nobody knows can't be ended")
	}
}

// rememberHeld tells the walls what executors hold that have outlived the agent's process before this one.
func (a *Agent) rememberHeld() {
	if a.cells == nil {
		return
	}
	var all []walls.Holding
	for _, held := range a.core.Held() {
		all = append(all, walls.Holding(held))
	}
	if err := a.cells.Remember(all); err != nil {
		a.log.Warn().Err(err).Msg("control groups of executors can't be set to what these hold")
	}
}

// userOf is the user as whom an executor runs: the owner of its folder.
func (a *Agent) userOf(folder string) int {
	info, err := a.folder.below.At(folder).Lstat(".")
	if err != nil {
		return entry.Self().UID
	}
	return entry.OwnerOf(info).UID
}

// sameBoot says whether the machine is still the same boot: after another one an equal PID and start time are chance.
func (a *Agent) sameBoot() bool { return a.core.Identity().BootID == a.config.BootID }

// startRun forks an executor and follows it to its end.
func (a *Agent) startRun(e core.StartExecutor) {
	ctx, cancel := context.WithCancel(a.context)
	state := &runState{run: e.Run, folder: e.Sandbox, abandon: cancel}
	a.runs.put(state)
	a.startWork(func() {
		defer cancel()
		state.said = stderrSize(a.folder.below.At(e.Sandbox))
		token := a.config.Random()
		process, err := a.forkRun(ctx, e, token)
		if err != nil {
			a.runs.drop(e.Run)
			a.inbox.postEvent(a.context, core.ExecutorFailed{Run: e.Run, Reason: executor.Reason(err), Message: err.Error()})
			return
		}
		a.runs.forked(state, process, a.userOf(e.Sandbox))
		hash := sha256.Sum256([]byte(token))
		a.inbox.postEvent(a.context, core.ExecutorForked{Run: e.Run, Process: process.ID(), TokenHash: hex.EncodeToString(hash[:])})
		a.awaitRun(a.context, state)
	})
}

// forkRun makes the folder of an executor with what belongs there, and its child.
func (a *Agent) forkRun(ctx context.Context, e core.StartExecutor, token string) (executor.Process, error) {
	command := e.Executor.Command
	if e.Builtin {
		if len(a.config.CommandExecutor) == 0 {
			return nil, errors.New("this agent was not told how to start the built-in executor; set CommandExecutor")
		}
		command = api.Command{Argv: a.config.CommandExecutor}
	}
	place := executor.Place{Sandbox: e.Sandbox, Builtin: e.Builtin, User: command.User}
	if err := a.showVolumes(ctx, place, e.Volumes); err != nil {
		return nil, err
	}
	leave := a.preparing.enter(ctx, command.URIs)
	if leave == nil {
		return nil, ctx.Err()
	}
	defer leave()
	child, err := a.config.Launcher.Fork(ctx, executor.Start{
		Run: e.Run.Executor, Command: command, Place: place, Socket: a.listeners.socket, Token: token,
		RecoveryTimeout: max(a.recoveryTimeout(), 0), Path: a.config.Path, Resources: e.Executor.Resources,
	})
	if err != nil || e.Builtin {
		return child, err
	}
	if err := a.cells.Reveal(child.ID().PID, a.folder.volumeFolders(e.Volumes)...); err != nil {
		child.Abandon()
		child.Wait(ctx)
		return nil, err
	}
	return child, nil
}

func (a *Agent) recoveryTimeout() time.Duration {
	if a.config.RecoveryTimeout == 0 {
		return 15 * time.Minute
	}
	return a.config.RecoveryTimeout
}

// awaitRun waits for the end of a process. When the agent ends first, a child at its gate
// must not wait for ever.
func (a *Agent) awaitRun(ctx context.Context, state *runState) {
	message, done := state.process.Wait(ctx)
	if !done {
		state.process.Abandon()
		return
	}
	a.runs.drop(state.run)
	if line := lastLine(a.folder.below.At(state.folder), state.said); line != "" {
		message += "; the last line of its stderr: " + line
	}
	a.inbox.postEvent(ctx, core.ExecutorExited{Run: state.run, Message: message})
}

// releaseRun opens the gate of an executor.
func (a *Agent) releaseRun(run core.Run) {
	process := a.runs.process(run)
	if process == nil {
		return // it has ended; ExecutorExited is on its way
	}
	if err := process.Release(); err != nil {
		a.log.Warn().Err(err).Stringer("executor", run.Executor).Msg("the gate of an executor did not open")
	}
}

// abandonRun ends a start that is no longer wanted.
func (a *Agent) abandonRun(run core.Run) {
	state := a.runs.get(run)
	if state == nil {
		return
	}
	state.abandon()
	if process := a.runs.process(run); process != nil {
		process.Abandon()
	}
}

// killGroups kills until nothing is left; what can't be killed is tried again for as
// long as the agent lives, because no task of it may be called ended before.
func (a *Agent) killGroups(e core.KillGroups) {
	a.startWork(func() {
		for a.context.Err() == nil {
			owner := executor.Owner{Executor: e.Run.Executor, Leader: e.Leader, Sandbox: e.Sandbox}
			end, err := a.config.Launcher.KillAll(a.context, owner)
			if err == nil {
				a.inbox.postEvent(a.context, core.GroupsGone{Run: e.Run, Reason: end.Reason, Message: end.Message})
				return
			}
			a.log.Error().Err(err).Stringer("executor", e.Run.Executor).Msg("its processes can't be killed")
			select {
			case <-time.After(time.Second):
			case <-a.context.Done():
			}
		}
	})
}

func (a *Agent) killGroup(e core.KillGroup) {
	a.startWork(func() {
		owner := executor.Owner{Executor: e.Executor, Leader: e.Leader, Sandbox: e.Sandbox}
		if err := a.config.Launcher.Kill(owner, e.Task.Task, e.Group); err != nil {
			a.log.Error().Err(err).Stringer("task", e.Task).Msg("its process group can't be killed")
		}
	})
}

// clearExecutors ends what this agent has started, when nobody is to come back for it.
// Executors end by themselves when they see the agent go; those that do not are killed.
func (a *Agent) clearExecutors() {
	const patience = 10 * time.Second
	gentle, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	targets := map[api.ExecutorRef]core.ExecutorStarted{}
	for _, started := range a.core.Runs() {
		targets[started.Run.Executor] = started
	}
	for _, state := range a.runs.all() {
		if state.process != nil {
			state.process.Wait(gentle)
		}
		a.runs.drop(state.run)
	}
	hard, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ref, started := range targets {
		owner := executor.Owner{Executor: ref, Leader: started.Process, Sandbox: a.core.ExecutorFolder(ref)}
		if _, err := a.config.Launcher.KillAll(hard, owner); err != nil {
			a.log.Error().Err(err).Stringer("executor", ref).Msg("its processes can't be killed")
		}
	}
}
