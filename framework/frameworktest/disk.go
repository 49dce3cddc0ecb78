package frameworktest

import (
	"context"
	"errors"
	"sync"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/walls"
)

var errPowerless = errors.New("this agent's process was killed")

// grip is the hold of one life of an agent on its disk: after the agent was killed nothing more is written.
type grip struct {
	checkpoint.Store
	host *host
	dead context.Context
}

func (g grip) Append(records []core.Record) (int, error) {
	if g.dead.Err() != nil {
		return 0, errPowerless
	}
	for _, record := range records {
		if identity, ok := record.(core.Identity); ok {
			g.host.mu.Lock()
			g.host.agent = identity.Agent
			g.host.mu.Unlock()
		}
	}
	return g.Store.Append(records)
}

func (g grip) Compact(records []core.Record) error {
	if g.dead.Err() != nil {
		return errPowerless
	}
	return g.Store.Compact(records)
}

func (g grip) Reset() error {
	if g.dead.Err() != nil {
		return errPowerless
	}
	return g.Store.Reset()
}

// launcher is the hold of one life of an agent on its processes. After the agent was killed it starts nothing more, and
// the children that wait at their gate end (R10).
type launcher struct {
	executor.Launcher
	dead context.Context

	mu    sync.Mutex
	gates []executor.Process
}

func (l *launcher) Fork(ctx context.Context, start executor.Start) (executor.Process, error) {
	if l.dead.Err() != nil {
		return nil, errPowerless
	}
	p, err := l.Launcher.Fork(ctx, start)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead.Err() != nil {
		p.Abandon()
		return nil, errPowerless
	}
	l.gates = append(l.gates, p)
	return gated{p, l.dead}, nil
}

// gated is a child whose gate opens only while the agent is alive.
type gated struct {
	executor.Process
	dead context.Context
}

func (g gated) Release() error {
	if g.dead.Err() != nil {
		return errPowerless
	}
	return g.Process.Release()
}

func (l *launcher) KillAll(ctx context.Context, owner executor.Owner) (walls.End, error) {
	if l.dead.Err() != nil {
		return walls.End{}, errPowerless
	}
	return l.Launcher.KillAll(ctx, owner)
}

// abandon keeps the gates closed that were not opened before the kill.
func (l *launcher) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.gates {
		p.Abandon()
	}
}
