package manager

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/internal/jobs/keeper"
	"github.com/tenderhq/tender/framework/jobs"
)

var errBusy = errors.New("another request is changing this job; try again")

// runBytes is the length of the random word that distinguishes a run of a job from earlier runs of the same name.
const runBytes = 6

// claimName reserves a name, so that only one request at a time changes the job of that name; releaseName ends that.
func (m *Manager) claimName(op, name string) (master *core.JobMaster, err error) {
	switch {
	case !m.isServing():
		return nil, api.E(op, api.Unavailable, name, errStandby)
	case !m.keeper.Claim(name):
		return nil, api.E(op, api.Unavailable, name, errBusy)
	}
	return m.keeper.Job(name), nil
}

func (m *Manager) releaseName(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keeper.Release(name)
}

// checkJob returns why the job can't be kept, or nil.
func (m *Manager) checkJob(op string, job jobs.Job) error {
	if err := job.Check(); err != nil {
		return api.E(op, api.Invalid, job.Name, err)
	}
	if err := job.CheckSchedule(m.config.Calendar, time.Now()); err != nil {
		return api.E(op, api.Invalid, job.Name, err)
	}
	if err := job.CheckConstraints(m.config.Judge); err != nil {
		return api.E(op, api.Invalid, job.Name, err)
	}
	return nil
}

// Requests whose context comes from [NewServer] are made by the caller whom a master has named: each of them is refused
// (Denied) unless the caller may make it for the job's role. Others are made by this process, which may do everything.

// SubmitJob begins a job, and returns the job's first version once that is in the store. If the same job exists
// already, that is no error, so a repeated request does no harm. A job that has ended is begun anew; for one that is
// stopping the error says when to ask again.
func (m *Manager) SubmitJob(ctx context.Context, job jobs.Job) (jobs.Version, error) {
	const op = "job.submit"
	if err := m.checkJob(op, job); err != nil {
		return jobs.Version{}, err
	}
	return m.keepFresh(ctx, op, job.Name, func(who caller, there *core.JobMaster) (version jobs.Version, fresh *keeper.Fresh, err error) {
		if job, err = m.settleRole(who, there, job); err != nil {
			return version, nil, err
		}
		version = jobs.Version{At: time.Now(), Job: job, Owner: who.scope.Who}
		return m.keeper.Submit(op, version, strings.ToLower(rand.Text()[:runBytes]))
	})
}

// UpdateJob makes a new version of a job. A service changes its tasks step by step; a batch uses the new version for
// tasks that have not begun. A job that is the same already stays as it is. seen is the version by which the change was
// decided: if the job has another one by now, the change is refused (Stale). 0: whichever it has. (R77)
func (m *Manager) UpdateJob(ctx context.Context, job jobs.Job, seen int) (jobs.Version, error) {
	const op = "job.update"
	if err := m.checkJob(op, job); err != nil {
		return jobs.Version{}, err
	}
	return m.keepFresh(ctx, op, job.Name, func(who caller, there *core.JobMaster) (version jobs.Version, fresh *keeper.Fresh, err error) {
		if there != nil {
			if job, err = m.settleRole(who, there, job); err != nil {
				return version, nil, err
			}
		}
		return m.keeper.Update(op, jobs.Version{At: time.Now(), Job: job, Owner: who.scope.Who}, seen)
	})
}

// RollbackJob makes a job again what one of its versions says; 0 is the version before the present one. seen is as in
// [Manager.UpdateJob].
func (m *Manager) RollbackJob(ctx context.Context, name string, to, seen int) (jobs.Version, error) {
	return m.keepFresh(ctx, "job.rollback", name, func(who caller, there *core.JobMaster) (version jobs.Version, fresh *keeper.Fresh, err error) {
		if there != nil {
			if err := m.permitCaller(who, there.Job.Role); err != nil {
				return version, nil, err
			}
		}
		if version, fresh, err = m.keeper.Rollback("job.rollback", name, to, seen); err == nil {
			_, err = m.settleRole(who, there, version.Job)
		}
		return version, fresh, err
	})
}

// keepFresh stores what is decided of a job, and then has it count. It returns the version that the job has.
func (m *Manager) keepFresh(ctx context.Context, op, name string, decide func(caller, *core.JobMaster) (jobs.Version, *keeper.Fresh, error)) (jobs.Version, error) {
	m.mu.Lock()
	there, err := m.claimName(op, name)
	if err != nil {
		m.mu.Unlock()
		return jobs.Version{}, err
	}
	defer m.releaseName(name)
	version, fresh, err := decide(callerOf(ctx), there)
	var before <-chan error
	if err == nil && fresh != nil && fresh.Begins && there != nil {
		m.keeper.TryAside(name)
		m.startWriting()
		before = m.outcomeOf(op, name)
	}
	client, turn := m.client, m.turn.number
	m.mu.Unlock()
	if err != nil || fresh == nil {
		return version, err
	}
	if err := m.joinRole(ctx, op, client, version.Job); err != nil {
		return version, err
	}
	// The end of an older job must be stored first: behind the new header that write would undo the new job.
	if err := await(ctx, op, name, before); err != nil {
		return version, err
	}
	if err := m.putFresh(ctx, op, name, client, fresh); err != nil {
		return version, err
	}
	var done <-chan error
	m.runWork(func(now time.Time) {
		if m.turn.number != turn { // another manager may have taken it over, and it was read from the store
			err = api.E(op, api.Unavailable, name, errLeft)
		} else if err = fresh.Stored(now); err == nil && !fresh.Begins {
			done = m.outcomeOf(op, name)
		}
	})
	if err != nil {
		return version, err
	}
	return version, await(ctx, op, name, done)
}

// putFresh writes what is to be in the store before a job or a version counts.
func (m *Manager) putFresh(ctx context.Context, op, name string, client masters, fresh *keeper.Fresh) error {
	list, err := fresh.Writes()
	for i, change := range list {
		err = putNew(ctx, op, client, name, change)
		if api.Is(err, api.Limit) || api.Is(err, api.Invalid) { // surely not written
			m.runWork(func(time.Time) { fresh.Refused(i) })
		}
		if err != nil {
			break
		}
	}
	return err
}

// putNew writes a record of a job that a person wants to be new or changed, if that leaves room for the jobs that there
// are.
func putNew(ctx context.Context, op string, client masters, name string, change keeper.Write) error {
	err := client.Put(ctx, change.Key, change.Value, change.KeepFree)
	switch {
	case api.Is(err, api.Fenced):
		return api.E(op, api.Unavailable, name, errLeft)
	case api.Is(err, api.Limit):
		return api.E(op, api.Limit, name, fmt.Errorf("there is no room for more jobs; delete some that nobody needs (tender job delete NAME): %w", err))
	}
	return err
}

// RunNow begins a run of a cron job at once, and returns the run's number once it is stored. The schedule stays as it is.
// number is the one that the run is to have; if it has begun already that is no error, so a repeated request does no
// harm. 0: the next one, whichever that is.
func (m *Manager) RunNow(ctx context.Context, name string, number int) (int, error) {
	const op = "job.run-now"
	if err := m.lookAtJob(ctx, op, name, func(master *core.JobMaster) { number = cmp.Or(number, master.Status(false).NewestRun+1) }); err != nil {
		return 0, err
	}
	asked := core.RunAsked{Number: number, Why: cmp.Or(callerOf(ctx).scope.Who, "somebody") + " asked for it"}
	return number, m.tellJob(ctx, op, name, asked, func(master *core.JobMaster) error {
		_, err := master.MayRun(number)
		return err
	})
}

// tellJob passes an event to a job that does not refuse it, and waits until what it has changed is in the store.
func (m *Manager) tellJob(ctx context.Context, op, name string, happened core.Event, refuse func(*core.JobMaster) error) error {
	var done <-chan error
	var err error = api.E(op, api.NotFound, name, keeper.ErrNoJob)
	m.runWork(func(now time.Time) {
		if master := m.keeper.Job(name); master != nil && m.client != nil {
			if err = refuse(master); err != nil {
				return
			}
			m.keeper.Tell(name, now, happened)
			done, err = m.outcomeOf(op, name), nil
		}
	})
	if err != nil {
		return err
	}
	return await(ctx, op, name, done)
}

// StopJob ends a job's tasks. The job stays in the history and can be submitted again.
func (m *Manager) StopJob(ctx context.Context, name string) error {
	return m.endJob(ctx, "job.stop", name, core.Asked{Why: "somebody asked for it"})
}

// DeleteJob ends a job's tasks and forgets the job.
func (m *Manager) DeleteJob(ctx context.Context, name string) error {
	return m.endJob(ctx, "job.delete", name, core.Asked{Delete: true, Why: "somebody asked for it"})
}

func (m *Manager) endJob(ctx context.Context, op, name string, how core.Asked) error {
	m.mu.Lock()
	master, err := m.claimName(op, name)
	var denied error
	if err == nil && master != nil {
		denied = m.permitCaller(callerOf(ctx), master.Job.Role)
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	defer m.releaseName(name)
	if master == nil {
		return api.E(op, api.NotFound, name, keeper.ErrNoJob)
	}
	if denied != nil {
		return denied
	}
	return m.tellJob(ctx, op, name, how, func(*core.JobMaster) error { return nil })
}

// ListQuery selects jobs. The zero value selects all.
type ListQuery struct {
	Prefix string // how their names begin
	After  string // only names after this one
	Limit  int    // at most this many; 0 = all
	Going  bool   // only jobs that have not ended
}

// ListJobs returns jobs by name, without their tasks and notes: those that the caller may see. more: there are further
// jobs after these.
func (m *Manager) ListJobs(ctx context.Context, query ListQuery) (list []jobs.Status, more bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isServing() {
		return nil, false, api.E("job.list", api.Unavailable, "", errStandby)
	}
	who := callerOf(ctx)
	from, _ := slices.BinarySearch(m.keeper.Names(), max(query.Prefix, query.After))
	for _, name := range m.keeper.Names()[from:] {
		if !strings.HasPrefix(name, query.Prefix) {
			if name > query.Prefix {
				break
			}
			continue
		}
		master := m.keeper.Job(name)
		if name == query.After || query.Going && master.Phase.Ended() || !m.maySee(who, master.Job.Role) {
			continue
		}
		if query.Limit > 0 && len(list) == query.Limit {
			return list, true, nil
		}
		list = append(list, m.statusOf(master, false))
	}
	return list, false, nil
}

// JobStatus returns a job with its tasks and its notes.
func (m *Manager) JobStatus(ctx context.Context, name string) (status jobs.Status, err error) {
	err = m.lookAtJob(ctx, "job.status", name, func(master *core.JobMaster) { status = m.statusOf(master, true) })
	return status, err
}

// JobHistory returns the versions of a job that are kept, the newest first. Those of roles whose jobs the caller may not
// see are left out.
func (m *Manager) JobHistory(ctx context.Context, name string) ([]jobs.Version, error) {
	versions, _, err := m.statusAndHistory(ctx, "job.history", name)
	return versions, err
}

// statusAndHistory returns a job's versions and its status, both as they are at the same moment.
func (m *Manager) statusAndHistory(ctx context.Context, op, name string) (versions []jobs.Version, status jobs.Status, err error) {
	err = m.lookAtJob(ctx, op, name, func(master *core.JobMaster) {
		status = m.statusOf(master, false)
		versions = slices.DeleteFunc(master.History(), func(version jobs.Version) bool { return !m.maySee(callerOf(ctx), version.Job.Role) })
	})
	return versions, status, err
}

// statusOf returns a job as it is shown to people.
func (m *Manager) statusOf(master *core.JobMaster, tasks bool) jobs.Status {
	status := master.Status(tasks)
	if err := m.roles.refused[status.Role]; err != nil && !status.Phase.Ended() {
		status.Why = fmt.Sprintf("the job manager can't run in role %s: %v", status.Role, err)
	}
	if why := m.keeper.Aside(master.Job.Name); why != nil {
		status.Why = fmt.Sprintf("set aside, for the store refuses to take it: %v; it is tried again every %v, and when a job is deleted", why, keeper.Again)
	}
	return status
}

func (m *Manager) lookAtJob(ctx context.Context, op, name string, see func(*core.JobMaster)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isServing() {
		return api.E(op, api.Unavailable, name, errStandby)
	}
	master := m.keeper.Job(name)
	if master == nil {
		return api.E(op, api.NotFound, name, keeper.ErrNoJob)
	}
	if err := m.permitCaller(callerOf(ctx), master.Job.Role); err != nil {
		return err
	}
	see(master)
	return nil
}

// Active reports whether this instance is the one that keeps the jobs. While it stands by, it has none, and answers no
// request; for a moment after it was cut off it does not know that another one has taken over.
func (m *Manager) Active() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isServing()
}

// frameworkID returns the ID of the framework that runs the tasks; "": this instance stands by.
func (m *Manager) frameworkID() api.FrameworkID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client == nil {
		return ""
	}
	return m.client.FrameworkID()
}
