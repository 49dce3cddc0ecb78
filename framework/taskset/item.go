package taskset

import (
	crand "crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/internal/work"
)

// itemIDBytesMax leaves room in a task's ID for the number and the nonce of the attempt.
const itemIDBytesMax = 200

// Item is a piece of work to be done once, or a service to be kept running.
type Item struct {
	// ID names the item in its set. Its tasks are called ID.ATTEMPT.NONCE.
	ID string
	// Group names the items that belong together, such as a job or a service. Groups with fewer running tasks go first.
	// Spreading, keeping apart, waiting for locality and comparing stragglers work by group.
	Group string
	// Role is the role in which the item's resources are wanted; all items of a group must have the same. Default:
	// Config.Role. The framework subscribes to the role if it has not done so.
	Role api.Role
	// Task is what to run. The set fills in its ID. A named port of 0 becomes one of the offer's ports.
	Task api.Task
	// Prefer says where the item runs best.
	Prefer locality.Prefer
	// Priority says which of the set's waiting items go first: those with the highest, whatever their group, and among
	// equals the groups with fewer running tasks. An item that does not fit holds nothing up: those behind it may go
	// first. Nothing that runs is ended for it; see the masters' priorities of roles for that. Items that prefer agents
	// go where they prefer, before all others.
	Priority int
	// Service keeps the item running: however its task ends, another attempt follows.
	Service bool
}

// Outcome tells how an item has ended.
type Outcome struct {
	Item  string
	Group string
	Done  bool // it ended well
	// Why says for people what went wrong.
	Why string
	// Attempts is how many tasks were launched for the item, as far as this set knows.
	Attempts int
	// Status is the status that decided the outcome. It names no task if the item's Timeout decided.
	Status api.Status
	// Took is how long the item was in the set.
	Took time.Duration
}

// item is an Item that has not ended.
type item struct {
	Item
	work.Piece[*attempt]
	group    *group
	nonce    string
	number   int // of the newest attempt
	launched int
	added    time.Time
	service  *service // the service to which it belongs; nil: none
	place    int      // its number in the service
	version  string   // what the item runs, see [VersionLabel]; "": it belongs to no service
	trial    *trial   // its trial while it is being changed; nil: it is not being changed
	changed  bool     // it was changed: tasks of another version have to end
	unproven *Item    // what it was before an unfinished change that another change has replaced; nil: there is none
	wishes   []*wish
	pause    *alarm // until the next attempt
	deadline *alarm
}

// attempt is one task of an item, launched and not ended.
type attempt struct {
	work.Attempt
	item     *item
	status   api.Status     // the last that was told, without its data
	version  string         // what the task runs, see [VersionLabel]
	began    time.Time      // since when it is RUNNING without having been UNREACHABLE; zero: it is not
	waits    bool           // it has checks: it is not up before it has passed them
	serves   api.ExecutorID // its executor, if the executor takes resources for itself
	host     api.AgentID    // the agent for which waiting.hosts counts it
	deadline *alarm
	patience *alarm
}

// taskID returns the ID for the task of the item's newest attempt. It differs from all IDs of other items with the same
// item ID, in this process or an earlier one.
func (it *item) taskID() api.TaskID {
	return api.TaskID(fmt.Sprintf("%s.%d.%s", it.ID, it.number, it.nonce))
}

// parseTaskID is the inverse of taskID, also for tasks of earlier processes.
func parseTaskID(id api.TaskID) (item string, number int, ok bool) {
	rest, _, ok := cutLast(string(id))
	if !ok {
		return "", 0, false
	}
	item, digits, ok := cutLast(rest)
	number, err := strconv.Atoi(digits)
	return item, number, ok && err == nil && item != "" && number > 0
}

func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, '.')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

func (s *state) addItem(asked Item, now time.Time) *item {
	it := &item{Item: asked, added: now, group: s.waiting.groupOf(asked.Group, s.waiting.roleOf(asked.Role)), nonce: strings.ToLower(crand.Text()[:6])}
	s.items[asked.ID] = it
	if asked.Service {
		it.version = versionOf(asked)
	}
	it.group.items++
	it.group.total++
	if s.applyRecord(it, now) {
		return it
	}
	if s.config.Timeout > 0 && !asked.Service {
		it.deadline = s.alarms.Add(now.Add(s.config.Timeout), func(now time.Time) {
			s.giveUp(it, api.Status{}, fmt.Sprintf("it was not done within %v", s.config.Timeout), now)
		})
	}
	s.ensureAttempt(it)
	return it
}

// ensureAttempt adds a wish for another attempt if no attempt of the item runs or waits.
func (s *state) ensureAttempt(it *item) {
	if s.items[it.ID] != it || it.pause != nil || slices.ContainsFunc(it.wishes, func(w *wish) bool { return !w.copy }) {
		return
	}
	if it.Held() {
		return
	}
	if w := s.wantAttempt(it, false, it.Avoids); w.avoid != "" {
		s.alarms.Add(time.Now().Add(s.rulesOf(it).AvoidFor()), func(time.Time) { s.waiting.relaxWish(w) })
	}
}

// wantAttempt adds a wish for another attempt.
func (s *state) wantAttempt(it *item, isCopy bool, avoid api.AgentID) *wish {
	it.number++
	w := &wish{task: it.Task, item: it, copy: isCopy, avoid: avoid}
	w.task.ID = it.taskID()
	if it.Service {
		w.task = labelTask(w.task, it.version)
	}
	s.waiting.addWish(w)
	return w
}

// dropItem removes an item from the set and kills all its tasks.
func (s *state) dropItem(it *item) {
	delete(s.items, it.ID)
	s.rollouts.touchItem(it)
	it.group.items--
	s.alarms.Clear(it.deadline)
	s.endPause(it)
	s.rollouts.endTrial(it)
	s.waiting.dropWishes(it, anyWish)
	for _, a := range it.Attempts {
		s.killUnwanted(a)
	}
	s.waiting.forgetIfEmpty(it.group)
}

func (s *state) endPause(it *item) {
	if it.pause != nil {
		s.alarms.Clear(it.pause)
		it.pause = nil
		s.numbers.Pausing--
	}
}

// killUnwanted kills an attempt that nobody wants any more.
func (s *state) killUnwanted(a *attempt) { s.killAttempt(a, work.Unwanted) }

// keepOnly makes an attempt the item's only one: it is no copy any more, and the others are killed.
func (s *state) keepOnly(a *attempt) {
	a.Copying = work.NoCopy
	for _, other := range a.item.Attempts {
		if other != a && other.Holds() {
			s.killUnwanted(other)
		}
	}
}

func (s *state) killAttempt(a *attempt, why work.Kill) {
	if a.Ends(why) {
		s.kills = append(s.kills, a.Task)
	}
	s.rollouts.touchItem(a.item)
}

// finishItem ends an item, well or not.
func (s *state) finishItem(it *item, outcome Outcome, now time.Time) {
	outcome.Item, outcome.Group, outcome.Attempts, outcome.Took = it.ID, it.Group, it.launched, now.Sub(it.added)
	if outcome.Done {
		s.numbers.Done++
		it.group.done++
	} else {
		s.numbers.GivenUp++
		if len(s.faults) < faultsKept {
			s.faults = append(s.faults, fmt.Errorf("%s: %s", it.ID, outcome.Why))
		}
	}
	s.ended = append(s.ended, outcome)
	s.dropItem(it)
}

func (s *state) giveUp(it *item, status api.Status, why string, now time.Time) {
	s.finishItem(it, Outcome{Why: why, Status: status}, now)
}

// retryAfter starts another attempt of the item after a pause.
func (s *state) retryAfter(it *item, pause time.Duration, now time.Time) {
	if pause <= 0 || it.Held() {
		s.ensureAttempt(it)
		return
	}
	s.endPause(it)
	s.numbers.Pausing++
	it.pause = s.alarms.Add(now.Add(pause), func(time.Time) {
		it.pause = nil
		s.numbers.Pausing--
		s.ensureAttempt(it)
	})
}

// rulesOf say what becomes of the item when an attempt has ended.
func (s *state) rulesOf(it *item) work.Rules {
	return work.Rules{Service: it.Service, Attempts: s.config.Attempts, Backoff: work.Backoff{First: s.config.Pause, Max: s.config.PauseMax}}
}
