package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"google.golang.org/grpc/peer"
)

// runs are the executors' processes that this agent has started or found.
type runs struct {
	config    *Config
	log       zerolog.Logger
	folder    *dataFolder
	inbox     *inbox
	now       *lifetime
	walls     *isolation
	listeners *listeners
	fetching  fetchLine

	mutex     sync.Mutex
	processes map[core.Run]*runState
}

// runState is what the agent keeps of one run, from StartExecutor on.
type runState struct {
	run     core.Run
	folder  string             // the folder of the executor
	said    int64              // the size of the executor's stderr before the run
	user    int                // the user that the process runs as
	process executor.Process   // nil until it is forked
	abandon context.CancelFunc // cancels the fork
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

// findProcess returns the process of a run that is wanted, or nil.
func (r *runs) findProcess(wanted func(*runState) bool) executor.Process {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, state := range r.processes { // order: irrelevant because one is enough, and an executor runs once at a time
		if state.process != nil && wanted(state) {
			return state.process
		}
	}
	return nil
}

func (r *runs) process(run core.Run) executor.Process {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if state := r.processes[run]; state != nil {
		return state.process
	}
	return nil
}

// living returns the PID of an executor that runs; 0: it does not run.
func (r *runs) living(ref api.ExecutorRef) int {
	return livingPID(r.findProcess(func(state *runState) bool { return state.run.Executor == ref }))
}

// around returns the PID of the executor whose folder contains the given folder of a task; 0: it does not run.
func (r *runs) around(task string) int {
	folder := filepath.Dir(filepath.Dir(task))
	return livingPID(r.findProcess(func(state *runState) bool { return state.folder == folder }))
}

// livingPID returns the PID of a process that has not ended; 0: it has, or there is none.
func livingPID(process executor.Process) int {
	if process == nil {
		return 0
	}
	id := process.ID()
	if !proc.Alive(id.PID, id.Start) {
		return 0
	}
	return id.PID
}

// forget drops all runs. Those of an earlier core's life do not belong to the next one, even if their numbers are
// equal.
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

// find looks for the processes that the previous agent started.
func (r *runs) find() (alive []core.Run) {
	r.forget()
	if r.now.core.Identity().BootID != r.config.BootID { // an equal PID and start time would be a coincidence
		return nil
	}
	for _, started := range r.now.core.Runs() {
		if process := r.config.Launcher.Find(started.Process); process != nil {
			folder := r.now.core.ExecutorFolder(started.Run.Executor)
			r.put(&runState{run: started.Run, folder: folder, user: r.userOf(folder), process: process, abandon: func() {}})
			alive = append(alive, started.Run)
		}
	}
	return alive
}

// sweepCells kills what runs in cells that this agent does not know. They are left when an agent, or a test, was killed
// before it had written about them. The cells of executors that have died stay until the core has their tasks killed.
func (r *runs) sweepCells(ctx context.Context) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var known []api.ExecutorRef
	for _, started := range r.now.core.Runs() {
		known = append(known, started.Run.Executor)
	}
	if err := r.walls.cells.Sweep(ctx, known); err != nil {
		r.log.Error().Err(err).Msg("processes of unknown executors can't be ended")
	}
}

// rememberHeld tells the walls what is held by executors that outlived the agent's previous process.
func (r *runs) rememberHeld() {
	if r.walls.cells == nil {
		return
	}
	var all []walls.Holding
	for _, held := range r.now.core.Held() {
		all = append(all, walls.Holding(held))
	}
	if err := r.walls.cells.Remember(all); err != nil {
		r.log.Warn().Err(err).Msg("control groups of executors can't be set to what their tasks need")
	}
}

// userOf returns the user that an executor runs as: the owner of its folder.
func (r *runs) userOf(folder string) int {
	info, err := r.folder.below.At(folder).Lstat(".")
	if err != nil {
		return entry.Self().UID
	}
	return entry.OwnerOf(info).UID
}

// start forks an executor and follows its process until that ends.
func (r *runs) start(e core.StartExecutor) {
	ctx, cancel := context.WithCancel(r.now.context)
	state := &runState{run: e.Run, folder: e.Sandbox, abandon: cancel}
	r.put(state)
	r.now.start(func() {
		defer cancel()
		state.said = tail.Size(r.folder.below.At(e.Sandbox), "stderr")
		token := r.config.Random()
		process, err := r.fork(ctx, e, token)
		if err != nil {
			r.drop(e.Run)
			r.inbox.postEvent(r.now.context, core.ExecutorFailed{Run: e.Run, Reason: executor.Reason(err), Message: err.Error()})
			return
		}
		r.forked(state, process, r.userOf(e.Sandbox))
		hash := sha256.Sum256([]byte(token))
		r.inbox.postEvent(r.now.context, core.ExecutorForked{Run: e.Run, Process: process.ID(), TokenHash: hex.EncodeToString(hash[:])})
		r.await(r.now.context, state)
	})
}

// fork makes the folder of an executor with its content, and then forks its child.
func (r *runs) fork(ctx context.Context, e core.StartExecutor, token string) (executor.Process, error) {
	command := e.Executor.Command
	if e.Builtin {
		if len(r.config.CommandExecutor) == 0 {
			return nil, errors.New("this agent was not told how to start the built-in executor; set CommandExecutor")
		}
		command = api.Command{Argv: r.config.CommandExecutor}
	}
	place := executor.Place{Sandbox: e.Sandbox, Builtin: e.Builtin, As: executor.As{User: command.User}}
	if err := r.folder.prepareVolumes(ctx, place, e.Volumes); err != nil {
		return nil, err
	}
	leave := r.fetching.enter(ctx, command.URIs)
	if leave == nil {
		return nil, ctx.Err()
	}
	defer leave()
	child, err := r.config.Launcher.Fork(ctx, executor.Start{
		Run: e.Run.Executor, Command: command, Place: place, Socket: r.listeners.socket, Token: token,
		RecoveryTimeout: max(r.config.RecoveryTimeout, 0), Path: r.config.Path, Resources: e.Executor.Resources,
	})
	if err != nil || e.Builtin {
		return child, err
	}
	if err := r.walls.cells.Reveal(child.ID().PID, r.folder.volumeFolders(e.Volumes)...); err != nil {
		child.Abandon()
		child.Wait(ctx)
		return nil, err
	}
	return child, nil
}

// await waits for the end of a process. If the agent ends first, a child that is still at its gate is ended, because
// it must not wait for ever.
func (r *runs) await(ctx context.Context, state *runState) {
	message, done := state.process.Wait(ctx)
	if !done {
		state.process.Abandon()
		return
	}
	r.drop(state.run)
	if line := tail.LastLine(r.folder.below.At(state.folder), "stderr", state.said); line != "" {
		message += "; the last line of its stderr: " + line
	}
	r.inbox.postEvent(ctx, core.ExecutorExited{Run: state.run, Message: message})
}

// release opens the gate of an executor.
func (r *runs) release(run core.Run) {
	process := r.process(run)
	if process == nil {
		return // the process has ended; ExecutorExited follows
	}
	if err := process.Release(); err != nil {
		r.log.Warn().Err(err).Stringer("executor", run.Executor).Msg("an executor was not let run after its start")
	}
}

// abandonStart ends a start that is no longer wanted.
func (r *runs) abandonStart(run core.Run) {
	state := r.get(run)
	if state == nil {
		return
	}
	state.abandon()
	if process := r.process(run); process != nil {
		process.Abandon()
	}
}

// killGroups kills until no process is left. What can't be killed is tried again for as long as the agent lives,
// because no task of it may be reported as ended before.
func (r *runs) killGroups(e core.KillGroups) {
	r.now.start(func() {
		for r.now.context.Err() == nil {
			owner := executor.Owner{Executor: e.Run.Executor, Leader: e.Leader, Sandbox: e.Sandbox}
			end, err := r.config.Launcher.KillAll(r.now.context, owner)
			if err == nil {
				r.inbox.postEvent(r.now.context, core.GroupsGone{Run: e.Run, Reason: end.Reason, Message: end.Message})
				return
			}
			r.log.Error().Err(err).Stringer("executor", e.Run.Executor).Msg("its processes can't be killed")
			pause.For(r.now.context, time.Second)
		}
	})
}

func (r *runs) killGroup(e core.KillGroup) {
	r.now.start(func() {
		owner := executor.Owner{Executor: e.Executor, Leader: e.Leader, Sandbox: e.Sandbox}
		if err := r.config.Launcher.Kill(owner, e.Task.Task, e.Group); err != nil {
			r.log.Error().Err(err).Stringer("task", e.Task).Msg("its process group can't be killed")
		}
	})
}

// clear ends the executors that this agent has started, when no agent will come back for them. Executors end
// by themselves when they see that the agent is gone; those that do not are killed.
func (r *runs) clear() {
	const patience = 10 * time.Second
	gentle, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	targets := map[api.ExecutorRef]core.ExecutorStarted{}
	for _, started := range r.now.core.Runs() {
		targets[started.Run.Executor] = started
	}
	for _, state := range r.all() {
		if state.process != nil {
			state.process.Wait(gentle)
		}
		r.drop(state.run)
	}
	hard, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ref, started := range targets {
		owner := executor.Owner{Executor: ref, Leader: started.Process, Sandbox: r.now.core.ExecutorFolder(ref)}
		if _, err := r.config.Launcher.KillAll(hard, owner); err != nil {
			r.log.Error().Err(err).Stringer("executor", ref).Msg("its processes can't be killed")
		}
	}
}

// checkPeer returns why the user at the other end of a stream may not speak for an executor, or nil.
func (r *runs) checkPeer(ctx context.Context, ref api.ExecutorRef) error {
	from, known := peer.FromContext(ctx)
	if !known {
		return nil
	}
	address, known := from.Addr.(peerAddr)
	itsOwn := func(state *runState) bool { return state.run.Executor == ref && state.user == address.uid }
	if !known || address.uid == entry.Self().UID || r.findProcess(itsOwn) != nil {
		return nil
	}
	return api.E("executor.subscribe", api.Denied, ref.String(),
		fmt.Errorf("user %d has connected, and the executor runs as another; only the executor itself may speak for it", address.uid))
}

// welcomes says whether a user is the agent's own, or that of an executor here.
func (r *runs) welcomes(uid int) bool {
	return uid == entry.Self().UID || r.findProcess(func(state *runState) bool { return state.user == uid }) != nil
}
