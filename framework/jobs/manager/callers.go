package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
)

// caller says who makes a request, and to what. The zero value is this process itself, which may do everything.
type caller struct {
	row   rights.Row // of the call
	scope rights.Scope
}

type callerKey struct{}

// callerOf returns who makes the request whose context this is.
func callerOf(ctx context.Context) caller {
	if who, is := ctx.Value(callerKey{}).(caller); is {
		return who
	}
	return caller{scope: rights.All()}
}

var errNoCaller = errors.New("the master that forwards the call does not say who makes it")

// admit returns the context of a call of the job service with its caller: in a cluster with certificates the one whom
// the forwarding master names, and no other peer is let in there. In other clusters everybody may do everything. (R61)
func admit(ctx context.Context, call string) (context.Context, error) {
	who := caller{scope: rights.All()}
	who.row, _ = rights.RowOf(call)
	if transport.CallerOf(ctx).Kind == trust.Master {
		scope, told := wire.JobCaller(ctx)
		if !told {
			return ctx, api.E("job.call", api.Denied, call, errNoCaller)
		}
		who.scope = scope
	}
	return context.WithValue(ctx, callerKey{}, who), nil
}

// admitted is a stream with the context of its admitted call.
type admitted struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context of the admitted call.
func (a admitted) Context() context.Context { return a.ctx }

// objectOf returns what a job in the role is to a grant.
func (m *Manager) objectOf(role api.Role) rights.Object {
	object := rights.Object{Role: role, Name: m.config.Name}
	if m.client != nil {
		object.Framework = m.client.FrameworkID()
	}
	return object
}

// maySee reports whether the caller may do to a job in the role what the call does.
func (m *Manager) maySee(who caller, role api.Role) bool { return who.scope.Covers(m.objectOf(role)) }

// permitCaller returns why the caller may not do to a job in the role what the call does, or nil.
func (m *Manager) permitCaller(who caller, role api.Role) error {
	if m.maySee(who, role) {
		return nil
	}
	return rights.Refuse(who.row, who.scope.Who, rights.Object{Role: role})
}

// roles are those in which the manager runs.
type roles struct {
	home    api.Role           // of jobs that name none
	refused map[api.Role]error // those in which it can't run, though jobs need it
}

// settleRole returns the job in the role in which it is to run: the one that it names, or else the one that it has
// already, or else the manager's. It returns an error if the caller may not have it run there, as the users that its
// tasks name, or in the place of the job of this name that there is; nil: there is none.
func (m *Manager) settleRole(who caller, there *core.JobMaster, job jobs.Job) (jobs.Job, error) {
	if there != nil {
		job.Role = cmp.Or(job.Role, there.Job.Role)
		if err := m.permitCaller(who, there.Job.Role); err != nil {
			return job, err
		}
	}
	job.Role = cmp.Or(job.Role, m.roles.home)
	if err := m.permitCaller(who, job.Role); err != nil {
		return job, err
	}
	users := []string{job.Task.User}
	for _, step := range job.Steps {
		users = append(users, step.Task.User)
	}
	for _, user := range users {
		if user != "" && !who.scope.MayRunAs(m.objectOf(job.Role), user) {
			return job, rights.RefuseUser(who.scope.Who, job.Role, user)
		}
	}
	return job, nil
}

// settlePlanned is settleRole for a job that is only planned.
func (m *Manager) settlePlanned(ctx context.Context, job jobs.Job) (jobs.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settleRole(callerOf(ctx), m.keeper.Job(job.Name), job)
}

// joinRole makes the manager run in the role of a job. m.mu must not be held.
func (m *Manager) joinRole(ctx context.Context, op string, client masters, job jobs.Job) error {
	if slices.Contains(client.Roles(), job.Role) {
		return nil
	}
	err := client.Join(ctx, job.Role)
	m.runWork(func(time.Time) {
		if m.roles.refused[job.Role] = err; err == nil {
			delete(m.roles.refused, job.Role)
			m.keeper.Restate(job.Role) // the masters may have known it, and forgotten it when the role was left
		}
	})
	if err != nil {
		return api.E(op, api.KindOf(err), job.Name, fmt.Errorf("the job manager can't run in role %s: %w", job.Role, err))
	}
	return nil
}

// joinAll makes the manager run in the roles of all jobs that go on. Jobs in a role that is refused wait.
func (m *Manager) joinAll(ctx context.Context, client masters) {
	m.mu.Lock()
	needed := make(map[api.Role]jobs.Job)
	for _, name := range m.keeper.Names() {
		if master := m.keeper.Job(name); !master.Phase.Ended() {
			needed[master.Job.Role] = master.Job
		}
	}
	m.mu.Unlock()
	for _, role := range slices.Sorted(maps.Keys(needed)) {
		if err := m.joinRole(ctx, "job.load", client, needed[role]); err != nil {
			m.config.Logger.Error("jobs of a role wait", "role", role, "error", err)
		}
	}
}
