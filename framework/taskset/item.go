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
	"github.com/tenderhq/tender/framework/internal/verdict"
	"github.com/tenderhq/tender/framework/locality"
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
	service  *service   // the service to which it belongs; nil: none
	place    int        // its number there
	seat     seat       // what the survey has found, while the service changes
	version  string     // what it runs, see [VersionLabel]; "": it is no service
	trial    *trial     // while it is being changed; nil: it is not
	changed  bool       // it was changed: tasks of another version have to end
	unproven *Item      // what it was before an unfinished change, if another change has replaced that one
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
	running  time.Time // when RUNNING was heard first; zero: not yet
	good     time.Time // since when it is RUNNING and healthy; zero: it is not
	version  string    // see [VersionLabel]
	since    time.Time // since when it is RUNNING without having been UNREACHABLE; zero: it is not
	waits    bool      // it is up only when its health is told: it has a check for readiness
	fault    string    // what was wrong with it, where no status says so
	copy     bool      // of a straggler, or of a service that is to leave its agent
	kill     verdict.Kill
	silence  silence
	serves   api.ExecutorID // its executor, if that takes resources for itself
	host     api.AgentID    // the agent for which it is counted in waiting.hosts
	deadline *alarm
	patience *alarm
}

// silence is how the attempt's agent is heard.
type silence uint8

const (
	heard  silence = iota
	silent         // it is UNREACHABLE
	missed         // it was UNREACHABLE for so long that it is replaced
)

// taskID is the ID of an attempt's task. It differs from those of any other item of this ID, in this process or an
// earlier one.
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

func (s *state) add(one Item, now time.Time) *item {
	it := &item{Item: one, added: now, group: s.waiting.groupOf(one.Group, s.waiting.roleOf(one.Role)), nonce: strings.ToLower(crand.Text()[:6])}
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
		it.deadline = s.alarms.Add(now.Add(s.config.Timeout), func(now time.Time) {
			s.giveUp(it, api.Status{}, fmt.Sprintf("it was not done within %v", s.config.Timeout), now)
		})
	}
	s.ensure(it)
	return it
}

// ensure has another attempt wait for an offer, if the item has none.
func (s *state) ensure(it *item) {
	if s.items[it.ID] != it || it.pause != nil || slices.ContainsFunc(it.wishes, func(w *wish) bool { return !w.copy }) {
		return
	}
	if !slices.ContainsFunc(it.live, (*attempt).holds) {
		s.want(it, false, "")
	}
}

// holds says whether the attempt does the item's work, so that no other one is wanted.
func (a *attempt) holds() bool { return a.kill != verdict.Unwanted && a.silence != missed }

// want has another attempt wait for an offer.
func (s *state) want(it *item, isCopy bool, avoid api.AgentID) *wish {
	it.number++
	w := &wish{task: it.Task, item: it, copy: isCopy, avoid: avoid}
	w.task.ID = it.taskID()
	if it.Service {
		w.task = labelled(w.task, it.version)
	}
	s.waiting.add(w)
	return w
}

// drop takes an item out and ends all that runs for it.
func (s *state) drop(it *item) {
	delete(s.items, it.ID)
	s.rollouts.touch(it)
	it.group.items--
	s.alarms.Clear(it.deadline)
	s.unpause(it)
	s.rollouts.endTrial(it)
	for len(it.wishes) > 0 {
		s.waiting.unwish(it.wishes[0])
	}
	for _, a := range it.live {
		s.dismiss(a)
	}
	s.waiting.tidy(it.group)
}

func (s *state) unpause(it *item) {
	if it.pause != nil {
		s.alarms.Clear(it.pause)
		it.pause = nil
		s.numbers.Pausing--
	}
}

// dismiss kills what nobody wants any more.
func (s *state) dismiss(a *attempt) { s.kill(a, verdict.Unwanted) }

func (s *state) kill(a *attempt, why verdict.Kill) {
	if a.kill == verdict.NotKilled {
		s.kills = append(s.kills, a.id)
	}
	a.kill = max(a.kill, why)
	s.rollouts.touch(a.item)
}

// finish ends an item, well or not.
func (s *state) finish(it *item, outcome Outcome, now time.Time) {
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

func (s *state) giveUp(it *item, status api.Status, why string, now time.Time) {
	s.finish(it, Outcome{Why: why, Status: status}, now)
}

// again has another attempt made, after a pause that grows with the number of attempts in a row that ended badly.
func (s *state) again(it *item, now time.Time, free bool) {
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
	it.pause = s.alarms.Add(now.Add(pause), func(time.Time) {
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
