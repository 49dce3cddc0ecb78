package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/wallclock"
	"github.com/tenderhq/tender/internal/work"
)

// The keys of a job's records; in the store they follow the job's name.
const (
	HeaderKey     = "job"
	versionPrefix = "version/"
	partPrefix    = "part/"
)

// VersionKey returns the key of a version.
func VersionKey(number int) string { return versionPrefix + strconv.Itoa(number) }

func partKey(subJob string, number int) string {
	return fmt.Sprintf("%s%s/%d", partPrefix, subJob, number)
}

// header is the main record of a job. What its tasks do is in the records of its parts.
type header struct {
	Run       string         `json:"run"`
	Version   int            `json:"version"`
	Stable    int            `json:"stable"`
	Phase     jobs.Phase     `json:"phase"`
	Why       string         `json:"why,omitempty"`
	Submitted time.Time      `json:"submitted"`
	Ended     time.Time      `json:"ended,omitzero"`
	Roll      roll           `json:"roll,omitzero"`
	Cron      *cron          `json:"cron,omitempty"` // only of a cron job
	Gang      gang           `json:"gang,omitzero"`  // only of a gang
	Notes     []jobs.Note    `json:"notes,omitempty"`
	SubJobs   []subJobRecord `json:"sub_jobs,omitempty"`
}

// subJobRecord keeps the counts of parts whose records are deleted.
type subJobRecord struct {
	Name   string     `json:"name"`
	Folded api.Ranges `json:"folded,omitempty"`
	Done   int        `json:"done,omitempty"`
	Failed int        `json:"failed,omitempty"`
}

type partRecord struct {
	Run      string      `json:"run"`
	Attempts int         `json:"attempts,omitempty"`
	Done     []uint64    `json:"done,omitempty"`
	Failed   []uint64    `json:"failed,omitempty"`
	Slots    slotRecords `json:"slots,omitempty"`
}

// Record returns what the store has to hold under a key; nil: nothing.
func (m *JobMaster) Record(key string) ([]byte, error) {
	if m.Gone {
		return nil, nil
	}
	if number, is := strings.CutPrefix(key, versionPrefix); is {
		n, err := strconv.Atoi(number)
		if version, known := m.Versions[n]; err == nil && known {
			return json.Marshal(version)
		}
		return nil, err
	}
	if key == HeaderKey {
		return json.Marshal(m.header())
	}
	subJob, number, err := parsePart(key)
	if err != nil || m.subJobNamed(subJob) == nil {
		return nil, err
	}
	p := m.subJobNamed(subJob).Parts[number]
	if p == nil {
		return nil, nil
	}
	return json.Marshal(p.record(m.Run))
}

func parsePart(key string) (subJob string, number int, err error) {
	subJob, text, _ := strings.Cut(strings.TrimPrefix(key, partPrefix), "/")
	number, err = strconv.Atoi(text)
	return subJob, number, err
}

func (m *JobMaster) header() header {
	h := header{Run: m.Run, Version: m.Version, Stable: m.Stable, Phase: m.Phase, Why: m.Why, Submitted: m.Submitted, Ended: m.EndedAt,
		Roll: m.Roll, Gang: m.Gang, Notes: m.Notes}
	if m.Job.Cron != nil {
		h.Cron = &m.Cron
	}
	for _, s := range m.Subs {
		h.SubJobs = append(h.SubJobs, subJobRecord{s.Name, s.Folded.Parts, s.Folded.Done, s.Folded.Failed})
	}
	return h
}

func (p *part) record(run string) partRecord {
	r := partRecord{Run: run, Attempts: p.Attempts}
	if p.Done.count() > 0 {
		r.Done = p.Done[:]
	}
	if p.Failed.count() > 0 {
		r.Failed = p.Failed[:]
	}
	for _, index := range slices.Sorted(maps.Keys(p.Slots)) {
		r.Slots = append(r.Slots, p.Slots[index])
	}
	return r
}

// Load makes a JobMaster from its records, given by their keys. left lists the records that are no longer needed. Without
// a header these are all, and there is no job: an unfinished deletion has left them, or a submission that was never
// answered.
func Load(now time.Time, records map[string][]byte) (m *JobMaster, left []string, err error) {
	if records[HeaderKey] == nil {
		return nil, slices.Sorted(maps.Keys(records)), nil
	}
	var h header
	if err := json.Unmarshal(records[HeaderKey], &h); err != nil {
		return nil, nil, fmt.Errorf("the record of the job: %w", err)
	}
	m = &JobMaster{Run: h.Run, Version: h.Version, Stable: h.Stable, Phase: h.Phase, Why: h.Why, Submitted: h.Submitted, EndedAt: h.Ended,
		Roll: h.Roll, Gang: h.Gang, Notes: h.Notes, Versions: make(map[int]jobs.Version), now: now, doubt: now.Add(wallclock.Doubt)}
	latest := 0
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if !strings.HasPrefix(key, versionPrefix) {
			continue
		}
		var version jobs.Version
		if err := json.Unmarshal(records[key], &version); err != nil {
			return nil, nil, fmt.Errorf("the record %s: %w", key, err)
		}
		m.Versions[version.Number] = version
		latest = max(latest, version.Number)
	}
	current, is := m.Versions[h.Version]
	if !is {
		return nil, nil, fmt.Errorf("its version %d is not there; the newest is %d", h.Version, latest)
	}
	m.Job = current.Job.WithDefaults()
	if err := m.loadSubJobs(h); err != nil {
		return nil, nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if !strings.HasPrefix(key, partPrefix) {
			continue
		}
		needed, err := m.loadPart(key, records[key])
		if err != nil {
			return nil, nil, fmt.Errorf("the record %s: %w", key, err)
		}
		if !needed {
			left = append(left, key)
		}
	}
	m.resume()
	m.now, m.doubt, m.effects = time.Time{}, time.Time{}, nil
	return m, left, nil
}

// loadSubJobs makes the sub-jobs: those of the plan, or one for each run that goes on.
func (m *JobMaster) loadSubJobs(h header) error {
	if h.Cron == nil {
		for _, planned := range m.Job.Plan().SubJobs {
			m.Subs = append(m.Subs, newSubJob(planned))
		}
	} else {
		m.Cron = *h.Cron
	}
	for _, r := range m.Cron.Runs {
		version, is := m.Versions[r.Version]
		if !is {
			return fmt.Errorf("version %d, with which run %d began, is not there", r.Version, r.Number)
		}
		m.Subs = append(m.Subs, r.subJob(version.Job))
	}
	for _, s := range m.Subs {
		for _, known := range h.SubJobs {
			if known.Name == s.Name {
				s.Folded = folded{known.Folded, known.Done, known.Failed}
				s.Done, s.Failed = known.Done, known.Failed
			}
		}
	}
	return nil
}

// loadPart reads a part; false: the part belongs to an earlier run, or the header counts it already.
func (m *JobMaster) loadPart(key string, value []byte) (needed bool, err error) {
	var r partRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return false, err
	}
	subJob, number, err := parsePart(key)
	if err != nil {
		return false, err
	}
	s := m.subJobNamed(subJob)
	if s == nil || r.Run != m.Run || m.Phase.Ended() || s.Folded.Parts.Contains(numberOf(number)) {
		return false, nil
	}
	p := &part{Slots: make(map[int]*slot), Attempts: r.Attempts}
	copy(p.Done[:], r.Done)
	copy(p.Failed[:], r.Failed)
	s.Parts[number] = p
	s.Done += p.Done.count()
	s.Failed += p.Failed.count()
	s.Next = max(s.Next, number*partSlots+max(p.Done.last(), p.Failed.last())+1)
	for _, one := range r.Slots {
		for _, a := range one.Attempts {
			a.Task = m.taskID(s, one.Index, a.Number)
		}
		pause := one.Pause
		one.Pause = time.Time{}
		s.insertSlot(one)
		s.bindAgent(one, one.Agent)
		switch live := one.live(); {
		case live == nil && pause.After(m.now):
			s.pauseSlot(one, m.now.Add(min(pause.Sub(m.now), backoffOf(s.Task).Max)))
		case live != nil && live.Copying == work.WantsCopy:
			s.Pace.Wishes = append(s.Pace.Wishes, one.Index)
		}
	}
	return true, nil
}

// resume continues where the JobMaster before has stopped: what waited waits again, and the alarms are set.
func (m *JobMaster) resume() {
	if m.Phase.Ended() {
		return
	}
	for _, s := range m.Subs {
		for _, folded := range s.Folded.Parts {
			s.Next = max(s.Next, min((int(folded.End)+1)*partSlots, s.Tasks))
		}
		for _, one := range s.allSlots() {
			switch {
			case one.busy() && (m.Phase != jobs.Running || s.Over): // the header was stored, but not this task's end
				for _, a := range one.Attempts {
					a.Kill = max(a.Kill, work.Unwanted)
				}
			case one.busy():
				m.watchTimes(s, one)
			case s.EachAgent && one.Version != m.Version && !m.Roll.Stopped && m.Phase == jobs.Running: // stored only in part
				s.renewSlot(one, m.Version)
			case !one.Pause.IsZero() && m.Phase == jobs.Running && !s.Over:
				m.Alarms.set(alarm{At: one.Pause, Kind: pauseOver, SubJob: s.Name, Index: one.Index})
			case s.EachAgent && len(one.Attempts) > 0 && m.Phase == jobs.Running: // the slot waits for its agent
			case m.Phase == jobs.Running && !s.Over && (!s.Keep || one.Index < s.Tasks):
				m.awaitAgent(s, one)
			default:
				s.dropSlot(one)
			}
		}
	}
	if m.Phase == jobs.Running {
		m.beginJob()
		if g := &m.Gang; g.Pause.After(m.now) {
			g.Pause = m.now.Add(min(g.Pause.Sub(m.now), backoffOf(m.Subs[0].Task).Max))
		}
		m.Alarms.resumeGang(m.Subs, m.Gang.Pause, m.now)
		m.resumeRoll()
	}
}

// resumeRoll takes back a change that was stored only in part, so that a part is newer than the header.
func (m *JobMaster) resumeRoll() {
	if m.Job.Rolling() == nil || (m.Roll.Active || m.Roll.Stopped) && !m.Roll.first() {
		return
	}
	for _, one := range m.Subs[0].allSlots() {
		if one.Version != m.Version {
			m.beginRoll(roll{From: m.Stable})
			return
		}
		one.Trial = false
	}
}

// Unheard returns the tasks that the store knows and of which nothing was told; the masters have to be asked about
// them.
func (m *JobMaster) Unheard() (tasks []api.TaskID) {
	for _, s := range m.Subs {
		for _, one := range s.allSlots() {
			for _, a := range one.tasks() {
				if a.State == api.TaskUnspecified {
					tasks = append(tasks, a.Task)
				}
			}
		}
	}
	return tasks
}

// Kills returns the tasks that have to end. A manager that has taken over asks for their end again.
func (m *JobMaster) Kills() (tasks []api.TaskID) {
	for _, s := range m.Subs {
		for _, one := range s.allSlots() {
			for _, a := range one.tasks() {
				if a.Kill != work.NotKilled {
					tasks = append(tasks, a.Task)
				}
			}
		}
	}
	return tasks
}
