package keeper

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/internal/alarms"
)

// book lists the jobs: by name, by when they are to be woken, and those that have ended. Of one name there is one job, and
// at most one request that changes it.
type book struct {
	jobs    map[string]*entry
	names   []string              // of the jobs, sorted
	claimed map[string]bool       // names whose jobs a request is changing, or that nobody may overwrite
	wakes   alarms.Alarms[string] // when to wake which job; an entry that is out of date does nothing
	endings endings
}

// entry is a job.
type entry struct {
	name   string
	master *core.JobMaster
	wake   time.Time // time of its entry in wakes; zero: none
}

// Job returns the job of a name; nil: there is none.
func (k *Keeper) Job(name string) *core.JobMaster {
	if e := k.book.jobs[name]; e != nil {
		return e.master
	}
	return nil
}

// Names returns the names of the jobs, sorted.
func (k *Keeper) Names() []string { return k.book.names }

// Claim reserves a name, so that only one request at a time changes the job of that name; false: one does already.
func (k *Keeper) Claim(name string) bool {
	free := !k.book.claimed[name]
	k.book.claimed[name] = true
	return free
}

// Release ends a claim.
func (k *Keeper) Release(name string) { delete(k.book.claimed, name) }

func (b *book) add(name string, m *core.JobMaster) *entry {
	if at, is := slices.BinarySearch(b.names, name); !is {
		b.names = slices.Insert(b.names, at, name)
	}
	e := &entry{name: name, master: m}
	b.jobs[name] = e
	return e
}

func (b *book) remove(name string) {
	if at, is := slices.BinarySearch(b.names, name); is {
		b.names = slices.Delete(b.names, at, at+1)
	}
	delete(b.jobs, name)
}

// noteWake notes when the job has to be woken.
func (b *book) noteWake(e *entry) {
	if wake := e.master.Wake(); !wake.IsZero() && (e.wake.IsZero() || wake.Before(e.wake)) {
		e.wake = wake
		b.wakes.Add(wake, e.name)
	}
}

// nextDue removes and returns the next job that is due; nil: none is.
func (b *book) nextDue(now time.Time) *entry {
	for name, is := b.wakes.Due(now); is; name, is = b.wakes.Due(now) {
		if e := b.jobs[name]; e != nil && !e.wake.IsZero() && !e.wake.After(now) {
			e.wake = time.Time{}
			return e
		}
	}
	return nil
}

// ended returns the job whose end this is; nil: it has begun anew, or is gone.
func (b *book) ended(of ending) *entry {
	if e := b.jobs[of.name]; e != nil && e.master.Run == of.run && e.master.Phase.Ended() {
		return e
	}
	return nil
}

// endings are the ends of jobs in the history, the oldest first.
type endings []ending

type ending struct {
	name string
	run  string
	at   time.Time
}

func (list *endings) add(fresh ending) {
	at, _ := slices.BinarySearchFunc(*list, fresh, func(a, b ending) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	*list = slices.Insert(*list, at, fresh)
}
