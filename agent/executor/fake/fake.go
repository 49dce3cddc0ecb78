// Package fake runs executors as functions, for clusters in memory: a fake process
// outlives its agent as a real one would, and ends when its function returns or when it
// is killed. It touches no disk and no real process.
package fake

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Launcher is an executor.Launcher that runs functions. Agents that follow one another with the same checkpoint share
// it.
type Launcher struct {
	// Run is the executor. It works until it is done or its context ends, which stands for SIGKILL. Its error says how
	// the process has ended.
	Run func(ctx context.Context, start executor.Start) error

	mutex     sync.Mutex
	last      int
	processes map[int]*process
	secrets   map[string]map[string]protocol.Hidden // the secrets that are shown as files, by the folders of their tasks
}

// ErrKilled is the cause of the end of a killed executor's context.
var ErrKilled = errors.New("killed")

type process struct {
	launcher *Launcher
	id       core.Process
	start    executor.Start
	context  context.Context
	kill     context.CancelCauseFunc
	open     sync.Once // the gate: released or abandoned, once
	ended    chan struct{}
	err      error // read after ended
}

// Fork makes a process that waits at its gate.
func (l *Launcher) Fork(_ context.Context, start executor.Start) (executor.Process, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.processes == nil {
		l.processes = map[int]*process{}
	}
	l.last++
	p := &process{launcher: l, id: core.Process{PID: 1000 + l.last, Start: uint64(l.last)}, start: start, ended: make(chan struct{})}
	p.context, p.kill = context.WithCancelCause(context.Background())
	l.processes[p.id.PID] = p
	return p, nil
}

func (p *process) ID() core.Process { return p.id }

func (p *process) Release() error {
	err := errors.New("the gate was abandoned")
	p.open.Do(func() {
		err = nil
		go func() { p.end(p.launcher.Run(p.context, p.start)) }()
	})
	return err
}

func (p *process) Abandon() { p.open.Do(func() { p.end(errors.New("abandoned at its gate")) }) }

func (p *process) end(err error) {
	p.launcher.mutex.Lock()
	delete(p.launcher.processes, p.id.PID)
	p.launcher.mutex.Unlock()
	p.err = err
	p.kill(ErrKilled)
	close(p.ended)
}

func (p *process) Wait(ctx context.Context) (string, bool) {
	select {
	case <-p.ended:
		if p.err == nil {
			return "exited with 0", true
		}
		return p.err.Error(), true
	case <-ctx.Done():
		return "", false
	}
}

// Find returns a process that still runs.
func (l *Launcher) Find(id core.Process) executor.Process {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if p := l.processes[id.PID]; p != nil && p.id == id {
		return p
	}
	return nil
}

// KillAll ends the process. Its tasks are its own goroutines; groups mean nothing here.
func (l *Launcher) KillAll(ctx context.Context, owner executor.Owner) (walls.End, error) {
	l.mutex.Lock()
	p := l.processes[owner.Leader.PID]
	l.mutex.Unlock()
	if p == nil || p.id != owner.Leader {
		return walls.End{}, nil
	}
	p.Abandon()
	p.kill(ErrKilled)
	if _, done := p.Wait(ctx); !done {
		return walls.End{}, ctx.Err()
	}
	return walls.End{}, nil
}

// KillEverything ends all processes, as the end of the machine would.
func (l *Launcher) KillEverything(ctx context.Context) error {
	l.mutex.Lock()
	all := slices.Collect(maps.Values(l.processes))
	l.secrets = nil
	l.mutex.Unlock()
	var err error
	for _, p := range all {
		_, failed := l.KillAll(ctx, executor.Owner{Leader: p.id})
		err = errors.Join(err, failed)
	}
	return err
}

// Kill does nothing: a task has no process group here.
func (l *Launcher) Kill(executor.Owner, api.TaskID, core.Process) error { return nil }

// Prepare does nothing: there are no folders.
func (l *Launcher) Prepare(context.Context, executor.Place, []api.URI) error { return nil }

// TryPorts finds all ports free: nothing in memory has any.
func (l *Launcher) TryPorts(map[string]uint16) error { return nil }

// ShowSecrets keeps what would be files, for [Launcher.Secrets].
func (l *Launcher) ShowSecrets(folder string, files map[string]protocol.Hidden) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.secrets == nil {
		l.secrets = map[string]map[string]protocol.Hidden{}
	}
	l.secrets[folder] = maps.Clone(files)
	return nil
}

// HideSecrets removes the secrets of a folder.
func (l *Launcher) HideSecrets(folder string) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.secrets, folder)
	return nil
}

// Secrets returns the secrets that the task with this folder would find as files, by their names.
func (l *Launcher) Secrets(folder string) map[string]protocol.Hidden {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return maps.Clone(l.secrets[folder])
}

// MoveAway does nothing: there are no folders.
func (l *Launcher) MoveAway(string, bool) (string, error) { return "", nil }

// Delete does nothing.
func (l *Launcher) Delete(string) error { return nil }
