package sim

import (
	"time"

	"github.com/tenderhq/tender/api"
	jobcore "github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/internal/jobs/writes"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
)

// write writes the next batch, unless one is being written.
func (p *manager) write() {
	if p.busy != nil || !p.Any() {
		return
	}
	p.busy = p.TakeBatch()
	p.under, p.waiting = p.waiting, nil
	p.stage(p.busy, p.busy.Stages())
}

// stage makes the writes of a stage, all at once, and then those of the next one.
func (p *manager) stage(b *writes.Batch, stages [][]writes.Write) {
	if len(stages) == 0 {
		p.s.later(0, func() { p.written(b) })
		return
	}
	left := 1
	next := func() {
		if left--; left == 0 {
			p.stage(b, stages[1:])
		}
	}
	for _, write := range stages[0] {
		if b.IsRefused(write.Key) {
			continue
		}
		left++
		p.send(write, func(err *api.Error) {
			if err != nil {
				b.Refuse(write.Key, err)
			}
			next()
		})
	}
	next()
}

// written goes on behind a batch.
func (p *manager) written(b *writes.Batch) {
	p.do(func(now time.Time) {
		aside := map[string]bool{}
		for _, name := range p.Names() {
			aside[name] = p.Aside(name) != nil
		}
		p.Written(b, now)
		for _, name := range p.Names() {
			if is := p.Aside(name) != nil; is != aside[name] {
				p.office.count(map[bool]string{true: "SetAside", false: "TakenBack"}[is], none, none)
			}
		}
		waiting := p.under
		p.busy, p.under = nil, nil
		for _, tell := range waiting {
			tell(b)
		}
	})
}

// await tells whether the store has taken the job, once all is written that was to be written by now.
func (p *manager) await(name string, reply func(error)) {
	tell := func(b *writes.Batch) { reply(b.Refused(name)) }
	switch {
	case p.Any():
		p.waiting = append(p.waiting, tell)
	case p.busy != nil:
		p.under = append(p.under, tell)
	default:
		reply(nil)
	}
}

// send makes a write as the SDK does: again and again under one number, until a leader has answered, as long as no other
// instance of the framework can have been active meanwhile (R17).
func (p *manager) send(write writes.Write, done func(*api.Error)) {
	on := p.s.takeLane()
	on.writes++
	counter, answered := on.writes, false
	var try func()
	again := func(pause time.Duration) {
		p.s.later(pause, func() {
			if !answered {
				try()
			}
		})
	}
	try = func() {
		l := p.s.world.leader()
		switch {
		case p.over():
			answered, on.taken = true, false
			return
		case l == nil, p.s.phase != active, p.s.isolated:
			again(300 * time.Millisecond)
			return
		}
		var change registry.Change = registry.DeleteEntry{Framework: p.s.info.ID, Session: p.s.session, Key: write.Key}
		if !write.Delete {
			change = registry.PutEntry{Framework: p.s.info.ID, Session: p.s.session, Key: write.Key, Value: write.Value, KeepFree: uint64(write.KeepFree)}
		}
		again(2 * time.Second) // the answer may be lost
		l.request(core.StoreWrite{Change: change, Instance: p.s.instance(), Lane: on.number, Counter: counter}, func(r core.Reply) {
			p.s.later(p.s.world.pause(), func() {
				if answered || p.over() || p.s.isolated || r.Err != nil && (api.Transient(r.Err) || r.Err.Kind == api.Fenced) {
					return
				}
				answered, on.taken = true, false
				if r.Err != nil && r.Err.Kind == api.Limit && write.Delete {
					p.s.world.breaks("%s can't delete %s, because the store is full (R58): %v", p.s.name, write.Key, r.Err)
				}
				done(r.Err)
			})
		})
	}
	try()
}

// takeLane takes a lane that no other write uses.
func (s *scheduler) takeLane() *storeLane {
	for _, lane := range s.lanes {
		if !lane.taken {
			lane.taken = true
			return lane
		}
	}
	lane := &storeLane{number: uint32(len(s.lanes)) + 1, taken: true} // the first is that of other writes of the process
	s.lanes = append(s.lanes, lane)
	return lane
}

// keep writes records of a new job, one after the other, as long as that leaves room for the jobs that there are. Those
// before one that is refused are deleted again.
func (p *manager) keep(m *jobcore.JobMaster, records []string, then func(error)) {
	var next func(at int)
	next = func(at int) {
		if at == len(records) {
			then(nil)
			return
		}
		value, err := m.Record(records[at])
		if err != nil {
			then(err)
			return
		}
		p.send(writes.Write{Key: writes.KeyOf(m.Job.Name, records[at]), Value: value, KeepFree: writes.FreeForAll}, func(err *api.Error) {
			if err == nil {
				next(at + 1)
				return
			}
			p.do(func(time.Time) {
				for _, written := range records[:at] {
					p.MarkDirty(m.Job.Name, written)
				}
			})
			then(err)
		})
	}
	next(0)
}

// submit begins a job; one that is there already is not begun again.
func (p *manager) submit(job jobs.Job, run string, reply func(error)) {
	if p.Job(job.Name) != nil {
		reply(nil)
		return
	}
	if !p.Claim(job.Name) {
		reply(api.E("job.submit", api.Unavailable, job.Name, nil))
		return
	}
	fresh := jobcore.New(jobs.Version{Number: 1, At: p.now(), Why: "submitted", Job: job}, run)
	p.keep(fresh, []string{jobcore.VersionKey(1), jobcore.HeaderKey}, func(err error) {
		p.Release(job.Name)
		if err == nil {
			p.do(func(now time.Time) { p.Add(fresh, now) })
		}
		reply(err)
	})
}

// update gives a job another version.
func (p *manager) update(job jobs.Job, reply func(error)) {
	m := p.Job(job.Name)
	if m == nil || m.Phase != jobs.Running {
		reply(api.E("job.update", api.Stale, job.Name, nil))
		return
	}
	version := jobs.Version{Number: m.Next(), At: p.now(), Why: "updated", Job: job}
	next := m.Clone()
	next.Versions[version.Number] = version
	p.keep(next, []string{jobcore.VersionKey(version.Number)}, func(err error) {
		if err != nil {
			reply(err)
			return
		}
		p.tell(job.Name, jobcore.Updated{Version: version}, func(err error) {
			if kind := api.KindOf(err); kind == api.Stale || kind == api.NotFound {
				p.do(func(time.Time) { p.MarkDirty(job.Name, jobcore.VersionKey(version.Number)) })
			}
			reply(err)
		})
	})
}

// tell passes an event to a job, and answers once the store has what that has changed.
func (p *manager) tell(name string, happened jobcore.Event, reply func(error)) {
	p.do(func(now time.Time) {
		m := p.Job(name)
		_, changes := happened.(jobcore.Updated)
		switch {
		case m == nil:
			reply(api.E("job.ask", api.NotFound, name, nil))
		case changes && m.Phase != jobs.Running:
			reply(api.E("job.update", api.Stale, name, nil))
		default:
			p.Tell(name, now, happened)
			p.await(name, reply)
		}
	})
}
