package taskset

import (
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/framework/pack"
)

// itemIDBytesMax leaves room in a task's ID for the attempt.
const itemIDBytesMax = 200

// Item is something to be done, or to be kept running.
type Item struct {
	// ID names the item in its set. Its tasks are called ID.ATTEMPT.NONCE.
	ID string
	// Group joins items that belong together: a job, a service. Groups with fewer tasks
	// go first; spreading, keeping apart, waiting for locality and comparing stragglers
	// are done by group.
	Group string
	// Role in which its resources are wanted, the same for all of its group. Default: Config.Role.
	// The framework subscribes to it, if it has not.
	Role api.Role
	// Task is what to run. Its ID is filled in; a named port of 0 becomes one of the offer.
	Task api.Task
	// Prefer says where it runs best.
	Prefer locality.Prefer
	// Service is kept running: however its task ends, there is another attempt.
	Service bool
}

// Outcome is how an item has ended.
type Outcome struct {
	Item  string
	Group string
	Done  bool // it ended well
	// Why says what was wrong, for people.
	Why string
	// Attempts is how many tasks were launched for it, as far as this set knows.
	Attempts int
	// Status is the one that decided; without a task when it was the time.
	Status api.Status
	// Took is how long it was in the set.
	Took time.Duration
}

// item is one that has not ended.
type item struct {
	Item
	group    *group
	nonce    string
	number   int // of the newest attempt
	launched int
	failures int // attempts that count
	streak   int // attempts in a row that ended badly
	added    time.Time
	live     []*attempt // launched and not ended; the oldest first
	service  *service   // that it is of; nil: of none
	version  string     // what it runs, see [VersionLabel]; "": it is no service
	trial    *trial     // it is in change
	changed  bool       // it was: what runs another version is to go
	unproven *Item      // what it was before a change that another has replaced
	wishes   []*wish
	pause    *alarm // until the next attempt
	deadline *alarm
}

// attempt is a task of an item.
type attempt struct {
	id       api.TaskID
	item     *item
	group    *group
	number   int
	agent    api.AgentID
	status   api.Status // the last that was told, without its data
	launched time.Time
	running  time.Time // RUNNING was heard; zero: not yet
	good     time.Time // since when it is RUNNING and healthy; zero: it is not
	version  string    // see [VersionLabel]
	copy     bool      // of a straggler, or of a service that is to leave its agent
	overdue  bool      // it is killed because it took too long
	unwanted bool      // it is killed and nobody cares how it ends
	killed   bool
	silent   bool           // UNREACHABLE
	missed   bool           // so long that it is replaced
	serves   api.ExecutorID // what runs it, if that takes resources for itself
	host     api.AgentID    // it is counted in Set.hosts for
	deadline *alarm
	patience *alarm
}

// wish is an attempt that is not launched yet.
type wish struct {
	task  api.Task
	ask   api.Resources
	item  *item
	copy  bool
	avoid api.AgentID // not there
	near  bool        // it queues for locality
	gone  bool        // launched, or not wanted any more
	age   int
}

// taskID names an attempt, unlike any of an item that had the ID before, in this or
// in an earlier process.
func (it *item) taskID() api.TaskID {
	return api.TaskID(fmt.Sprintf("%s.%d.%s", it.ID, it.number, it.nonce))
}

// parse is the inverse of taskID, for tasks of earlier processes as well.
func parse(id api.TaskID) (item string, number int, ok bool) {
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

func (s *Set) add(one Item, now time.Time) *item {
	it := &item{Item: one, added: now, group: s.groupOf(one.Group, s.roleOf(one.Role)), nonce: strings.ToLower(crand.Text()[:6])}
	s.items[one.ID] = it
	if one.Service {
		it.version = versionOf(one)
	}
	it.group.items++
	it.group.total++
	if s.recalled(it, now) {
		return it
	}
	if s.config.Timeout > 0 && !one.Service {
		it.deadline = s.alarms.set(now.Add(s.config.Timeout), func(now time.Time) {
			s.giveUp(it, api.Status{}, fmt.Sprintf("it was not done within %v", s.config.Timeout), now)
		})
	}
	s.ensure(it)
	return it
}

// ensure wants an attempt for an item that has none.
func (s *Set) ensure(it *item) {
	if s.items[it.ID] != it || it.pause != nil || slices.ContainsFunc(it.wishes, func(w *wish) bool { return !w.copy }) {
		return
	}
	if !slices.ContainsFunc(it.live, (*attempt).holds) {
		s.want(it, false, "")
	}
}

// holds: the attempt does the item's work, so that no other is wanted.
func (a *attempt) holds() bool { return !a.unwanted && !a.missed }

// want queues an attempt.
func (s *Set) want(it *item, isCopy bool, avoid api.AgentID) *wish {
	it.number++
	s.added++
	w := &wish{task: it.Task, item: it, copy: isCopy, avoid: avoid, age: s.added}
	w.task.ID = it.taskID()
	if it.Service {
		w.task = labelled(w.task, it.version)
	}
	if s.config.Spread != "" || s.config.Apart != "" {
		w.task.Group = it.Group
	}
	w.ask = pack.Ask(w.task)
	s.wishes[w.task.ID] = w
	it.wishes = append(it.wishes, w)
	if s.refuses(w) {
		s.picky++
	}
	s.unsaid = true
	if w.near = !isCopy && it.prefers(); w.near {
		it.group.near++
		it.group.role.delay.Add(jobOf(it.Group), w.task, it.Prefer)
	} else {
		s.queue(w)
	}
	return w
}

func (it *item) prefers() bool {
	return len(it.Prefer.Agents)+len(it.Prefer.Hostnames)+len(it.Prefer.Places) > 0
}

// unwish forgets what is not wanted any more.
func (s *Set) unwish(w *wish) {
	if w.near {
		w.item.group.role.delay.Remove(w.task.ID)
	}
	s.unsaid = true
	s.taken(w)
}

// taken takes a wish out of the books: it is launched, or not wanted any more.
func (s *Set) taken(w *wish) {
	delete(s.wishes, w.task.ID)
	w.item.wishes = slices.DeleteFunc(w.item.wishes, func(other *wish) bool { return other == w })
	w.gone = true
	if s.refuses(w) {
		s.picky--
	}
	if w.near {
		w.item.group.near--
	} else {
		s.unqueue(w)
	}
}

// drop takes an item out and ends all that runs for it.
func (s *Set) drop(it *item) {
	delete(s.items, it.ID)
	it.group.items--
	s.alarms.stop(it.deadline)
	s.unpause(it)
	s.endTrial(it)
	for len(it.wishes) > 0 {
		s.unwish(it.wishes[0])
	}
	for _, a := range it.live {
		s.dismiss(a)
	}
	s.tidy(it.group)
}

func (s *Set) unpause(it *item) {
	if it.pause != nil {
		s.alarms.stop(it.pause)
		it.pause = nil
		s.numbers.Pausing--
	}
}

// dismiss kills what nobody wants any more.
func (s *Set) dismiss(a *attempt) {
	a.unwanted = true
	s.kill(a)
}

func (s *Set) kill(a *attempt) {
	if !a.killed {
		a.killed = true
		s.kills = append(s.kills, a.id)
	}
}

// finish ends an item, well or not.
func (s *Set) finish(it *item, outcome Outcome, now time.Time) {
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
	s.drop(it)
}

func (s *Set) giveUp(it *item, status api.Status, why string, now time.Time) {
	s.finish(it, Outcome{Why: why, Status: status}, now)
}

// again has another attempt after a pause that fits the row of bad ends.
func (s *Set) again(it *item, now time.Time, free bool) {
	it.streak++
	pause := s.config.pauseAfter(it.streak)
	if free && it.streak == 1 {
		pause = 0
	}
	if pause <= 0 || slices.ContainsFunc(it.live, (*attempt).holds) {
		s.ensure(it)
		return
	}
	s.unpause(it)
	s.numbers.Pausing++
	it.pause = s.alarms.set(now.Add(pause), func(time.Time) {
		it.pause = nil
		s.numbers.Pausing--
		s.ensure(it)
	})
}

// pauseAfter so many attempts in a row that ended badly.
func (c Config) pauseAfter(streak int) time.Duration {
	if c.Pause < 0 {
		return 0
	}
	pause := min(c.Pause, c.PauseMax)
	for range streak - 1 {
		if pause = 2 * pause; pause >= c.PauseMax {
			pause = c.PauseMax
			break
		}
	}
	return pause/2 + rand.N(pause/2+1)
}
