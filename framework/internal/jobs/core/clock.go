package core

import (
	"time"

	"github.com/tenderhq/tender/internal/wallclock"
)

// Times that this manager has taken have a monotonic part, by which they are compared; so nothing moves when somebody
// sets the wall clock. Times of the store are times of the wall clock of some manager, which may have been wrong then or
// may be wrong now. What follows from them is put off while the clock is in doubt: for a minute after a takeover and
// after the clock was set. After such a minute they are believed, and moved no more. (Protocol rule R56.)

// clockSet handles that somebody has set the wall clock. What this manager has measured or believes goes on, and is
// stored anew by the clock as it is now. What waits because of another time in the store is awaited anew.
func (m *JobMaster) clockSet(e ClockSet) {
	if m.Gone { // no time of it matters any more, and its versions are forgotten
		return
	}
	m.doubt = e.Doubt
	before := m.now.Round(0).Add(-e.By)
	for _, at := range m.storedTimes() {
		switch {
		case *at != at.Round(0):
			*at = m.now.Add(at.Sub(m.now)) // the same moment, by the clock as it is now
		case e.Believed && !at.IsZero() && !at.After(before):
			*at = m.now.Add(at.Sub(before))
		}
	}
	m.runs.Cron.Next = time.Time{}
	m.Alarms.Remove(func(due alarm) bool { return due.Kind == runDue || due.Kind == deadlineAt || due.Kind == timeOver })
	m.watchDeadlines()
	storesAnew := e.By.Abs() > wallclock.Doubt // else the difference means little
	if storesAnew {
		m.saveHeader()
	}
	for _, sub := range m.Subs {
		for _, s := range sub.allSlots() {
			m.launches.watchTimes(sub, s)
			if storesAnew {
				m.savePart(sub, s.Index)
			}
		}
	}
}

// storedTimes lists the times that are stored and that something follows from.
func (m *JobMaster) storedTimes() []*time.Time {
	list := []*time.Time{&m.Submitted, &m.EndedAt, &m.gangs.Gang.Pause}
	for i := range m.runs.Cron.Runs {
		list = append(list, &m.runs.Cron.Runs[i].Began)
	}
	for _, sub := range m.Subs {
		for _, s := range sub.allSlots() {
			list = append(list, &s.Pause)
			for _, a := range s.Attempts {
				list = append(list, &a.Since)
			}
		}
	}
	return list
}

// watchDeadlines sets the alarms for the deadlines of the job and of its runs.
func (m *JobMaster) watchDeadlines() {
	if m.Phase.Ended() {
		return
	}
	if limit := deadlineOf(m.Job); limit > 0 {
		m.Alarms.set(alarm{At: m.dueAfter(m.Submitted, limit), Kind: deadlineAt})
	}
	for _, run := range m.runs.Cron.Runs {
		m.runs.watchRun(run, m.Versions[run.Version].Job)
	}
}
