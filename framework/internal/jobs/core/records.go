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
		return json.Marshal(m.makeHeader())
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

func (m *JobMaster) makeHeader() header {
	h := header{Run: m.Run, Version: m.Version, Stable: m.rolling.Stable, Phase: m.Phase, Why: m.Why, Submitted: m.Submitted, Ended: m.EndedAt,
		Roll: m.rolling.Roll, Gang: m.gangs.Gang, Notes: m.Notes}
	if cron := m.runs.Cron; m.Job.Cron != nil {
		h.Cron = &cron
	}
	if m.Phase == jobs.Deleting { // a full store has to take it, and who takes over needs no more (R58)
		h.Notes, h.Roll.Why = nil, ""
		if h.Cron != nil {
			h.Cron.Past = nil
		}
	}
	for _, sub := range m.Subs {
		h.SubJobs = append(h.SubJobs, subJobRecord{sub.Name, sub.Folded.Parts, sub.Folded.Done, sub.Folded.Failed})
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
	m = build(&base{Run: h.Run, Version: h.Version, Phase: h.Phase, Why: h.Why, Submitted: h.Submitted, EndedAt: h.Ended, Notes: h.Notes,
		Versions: make(map[int]jobs.Version), now: now, doubt: now.Add(wallclock.Doubt)})
	m.rolling.Stable, m.rolling.Roll, m.gangs.Gang = h.Stable, h.Roll, h.Gang
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
	m.resumeJob()
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
		m.runs.Cron = *h.Cron
	}
	for _, run := range m.runs.Cron.Runs {
		version, is := m.Versions[run.Version]
		if !is {
			return fmt.Errorf("version %d, with which run %d began, is not there", run.Version, run.Number)
		}
		m.Subs = append(m.Subs, run.subJob(version.Job))
	}
	for _, sub := range m.Subs {
		for _, known := range h.SubJobs {
			if known.Name == sub.Name {
				sub.Folded = folded{known.Folded, known.Done, known.Failed}
				sub.Done, sub.Failed = known.Done, known.Failed
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
	sub := m.subJobNamed(subJob)
	if sub == nil || r.Run != m.Run || m.Phase.Ended() || sub.Folded.Parts.Contains(numberOf(number)) {
		return false, nil
	}
	p := &part{Slots: make(map[int]*slot), Attempts: r.Attempts}
	copy(p.Done[:], r.Done)
	copy(p.Failed[:], r.Failed)
	sub.Parts[number] = p
	sub.Done += p.Done.count()
	sub.Failed += p.Failed.count()
	sub.Next = max(sub.Next, number*partSlots+max(p.Done.last(), p.Failed.last())+1)
	for _, s := range r.Slots {
		for _, a := range s.Attempts {
			a.Task = m.taskID(sub, s.Index, a.Number)
		}
		pause := s.Pause
		s.Pause = time.Time{}
		sub.insertSlot(s)
		sub.bindAgent(s, s.Agent)
		switch live := s.live(); {
		case live == nil && pause.After(m.now):
			sub.pauseSlot(s, m.now.Add(min(pause.Sub(m.now), backoffOf(sub.Task).Max)))
		case live != nil && live.Copying == work.WantsCopy:
			sub.Pace.Wishes = append(sub.Pace.Wishes, s.Index)
		}
	}
	return true, nil
}

// resumeJob continues where the JobMaster before has stopped: what waited waits again, and the alarms are set.
func (m *JobMaster) resumeJob() {
	if m.Phase.Ended() {
		return
	}
	for _, sub := range m.Subs {
		for _, folded := range sub.Folded.Parts {
			sub.Next = max(sub.Next, min((int(folded.End)+1)*partSlots, sub.Tasks))
		}
		for _, s := range sub.allSlots() {
			switch {
			case s.busy() && (m.Phase != jobs.Running || sub.Over): // the header was stored, but not this task's end
				for _, a := range s.Attempts {
					a.Kill = max(a.Kill, work.Unwanted)
				}
			case s.busy():
				m.launches.watchTimes(sub, s)
			case sub.EachAgent && s.Version != m.Version && !m.rolling.Roll.Stopped && m.Phase == jobs.Running: // stored only in part
				sub.renewSlot(s, m.Version)
			case !s.Pause.IsZero() && m.Phase == jobs.Running && !sub.Over:
				m.Alarms.set(alarm{At: s.Pause, Kind: pauseOver, SubJob: sub.Name, Index: s.Index})
			case sub.EachAgent && len(s.Attempts) > 0 && m.Phase == jobs.Running: // the slot waits for its agent
			case m.Phase == jobs.Running && !sub.Over && (!sub.Keep || s.Index < sub.Tasks):
				m.waiting.awaitAgent(sub, s)
			default:
				sub.dropSlot(s)
			}
		}
	}
	if m.Phase == jobs.Running {
		m.beginJob()
		if g := &m.gangs.Gang; g.Pause.After(m.now) {
			g.Pause = m.now.Add(min(g.Pause.Sub(m.now), backoffOf(m.Subs[0].Task).Max))
		}
		m.Alarms.resumeGang(m.Subs, m.gangs.Gang.Pause, m.now)
		m.rolling.resumeRoll()
	}
}

// Unheard returns the tasks that the store knows and of which nothing was told; the masters have to be asked about
// them.
func (m *JobMaster) Unheard() []api.TaskID {
	return m.tasksOf(func(a *attempt) bool { return a.State == api.TaskUnspecified })
}

// Kills returns the tasks that have to end. A manager that has taken over asks for their end again.
func (m *JobMaster) Kills() []api.TaskID {
	return m.tasksOf(func(a *attempt) bool { return a.Kill != work.NotKilled })
}

func (m *JobMaster) tasksOf(choose func(*attempt) bool) (tasks []api.TaskID) {
	for _, sub := range m.Subs {
		for a := range sub.allAttempts() {
			if choose(a) {
				tasks = append(tasks, a.Task)
			}
		}
	}
	return tasks
}
