package sim

import (
	"time"

	"github.com/tenderhq/tender/api"
	jobcore "github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/internal/jobs/keeper"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
)

// writeBatch writes the next batch, unless one is being written.
func (p *manager) writeBatch() {
	if !p.Busy() && p.Any() {
		batch := p.TakeBatch()
		p.writeStage(batch, batch.Stages())
	}
}

// writeStage makes the writes of a stage, all at once, and then those of the next one. Now and then the process is killed
// between two, so that who takes over finds a part of the batch.
func (p *manager) writeStage(b *keeper.Batch, stages [][]keeper.Write) {
	if len(stages) == 0 {
		p.s.planLater(0, func() { p.followBatch(b) })
		return
	}
	left := 1
	next := func() {
		switch left--; {
		case left > 0:
		case len(stages[0]) > 0 && p.s.world.drawChance(100):
			p.s.killProcess()
			p.s.world.planIn(p.s.world.drawBetween(0, 2*time.Second), p.s.startProcess)
		default:
			p.writeStage(b, stages[1:])
		}
	}
	for _, write := range stages[0] {
		if b.IsRefused(write.Key) {
			continue
		}
		left++
		p.sendWrite(write, func(err *api.Error) {
			if err != nil {
				b.Refuse(write.Key, err)
			}
			next()
		})
	}
	next()
}

// followBatch goes on behind a batch.
func (p *manager) followBatch(b *keeper.Batch) {
	p.runWork(func(now time.Time) {
		aside := map[string]bool{}
		for _, name := range p.Names() {
			aside[name] = p.Aside(name) != nil
		}
		p.Written(b, now)
		for _, name := range p.Names() {
			if is := p.Aside(name) != nil; is != aside[name] {
				p.office.countEvent(map[bool]string{true: "SetAside", false: "TakenBack"}[is], none, none)
			}
		}
	})
}

// sendWrite makes a write as the SDK does: again and again under one number, until a leader has answered, as long as no other
// instance of the framework can have been active meanwhile (R17).
func (p *manager) sendWrite(write keeper.Write, done func(*api.Error)) {
	on := p.s.takeLane()
	on.writes++
	counter, answered := on.writes, false
	var try func()
	again := func(pause time.Duration) {
		p.s.planLater(pause, func() {
			if !answered {
				try()
			}
		})
	}
	try = func() {
		l := p.s.world.findLeader()
		switch {
		case p.isOver():
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
		stored := core.StoreWrites{{Change: change, Instance: p.s.instanceName(), Lane: on.number, Counter: counter}}
		l.requestAction(stored, func(r core.Reply) {
			p.s.planLater(p.s.world.drawPause(), func() {
				if answered || p.isOver() || p.s.isolated || r.Err != nil && (api.Transient(r.Err) || r.Err.Kind == api.Fenced) {
					return
				}
				answered, on.taken = true, false
				if r.Err != nil && r.Err.Kind == api.Limit && write.Delete {
					p.s.world.breakStory("%s can't delete %s, because the store is full (R58): %v", p.s.name, write.Key, r.Err)
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

// submitJob begins a job. Nobody submits a name again.
func (p *manager) submitJob(job jobs.Job, run string, reply func(error)) {
	if p.Job(job.Name) != nil {
		reply(nil)
		return
	}
	p.keepFresh(job.Name, reply, func() (*keeper.Fresh, error) {
		_, fresh, err := p.Submit("job.submit", jobs.Version{At: p.readClock(), Job: job}, run)
		return fresh, err
	})
}

// updateJob gives a job another version.
func (p *manager) updateJob(job jobs.Job, reply func(error)) {
	p.keepFresh(job.Name, reply, func() (*keeper.Fresh, error) {
		_, fresh, err := p.Update("job.update", jobs.Version{At: p.readClock(), Job: job}, 0)
		return fresh, err
	})
}

// keepFresh stores what is decided of a job, and then has it count.
func (p *manager) keepFresh(name string, reply func(error), decide func() (*keeper.Fresh, error)) {
	if !p.Claim(name) {
		reply(api.E("job.claim", api.Unavailable, name, nil))
		return
	}
	done := func(err error) {
		p.Release(name)
		reply(err)
	}
	fresh, err := decide()
	if err != nil || fresh == nil {
		done(err)
		return
	}
	list, err := fresh.Writes()
	if err != nil {
		done(err)
		return
	}
	var next func(at int)
	next = func(at int) {
		if at == len(list) {
			p.runWork(func(now time.Time) {
				if err := fresh.Stored(now); err != nil || fresh.Begins {
					done(err)
					return
				}
				p.Await(name, func(refused, _ error) { done(refused) })
			})
			return
		}
		p.sendWrite(list[at], func(err *api.Error) {
			if err == nil {
				next(at + 1)
				return
			}
			p.runWork(func(time.Time) { fresh.Refused(at) })
			done(err)
		})
	}
	next(0)
}

// tellJob asks for a job's end, and answers once the store has what that has changed.
func (p *manager) tellJob(name string, asked jobcore.Asked, reply func(error)) {
	p.runWork(func(now time.Time) {
		if p.Job(name) == nil {
			reply(api.E("job.ask", api.NotFound, name, nil))
			return
		}
		p.Tell(name, now, asked)
		p.Await(name, func(refused, _ error) { reply(refused) })
	})
}
