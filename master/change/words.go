package change

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/view"
)

// Kind is the kind of a thing that changes.
type Kind string

// The kinds.
const (
	Agent       Kind = "agent"
	Framework   Kind = "framework"
	Task        Kind = "task"
	Executor    Kind = "executor"
	Offer       Kind = "offer"
	Operation   Kind = "operation"
	Job         Kind = "job"
	Role        Kind = "role"
	Volume      Kind = "volume"
	Reservation Kind = "reservation"
	Maintenance Kind = "maintenance"
	Master      Kind = "master"
	Election    Kind = "election"
	Secret      Kind = "secret"
	Token       Kind = "token"
	Principal   Kind = "principal"
	Authority   Kind = "authority"
)

// Kinds are all kinds, in the order in which people are shown them.
var Kinds = []Kind{Agent, Framework, Task, Executor, Offer, Operation, Job, Role, Volume, Reservation, Maintenance, Master, Election, Secret,
	Token, Principal, Authority}

// CheckKinds refuses kinds that do not exist: who asks for one would wait for ever.
func CheckKinds(op string, kinds []string) error {
	for _, kind := range kinds {
		if !slices.Contains(Kinds, Kind(kind)) {
			return api.E(op, api.Invalid, "kinds", fmt.Errorf("kind %.40q is unknown; there are %s", kind, strings.ReplaceAll(strings.Trim(fmt.Sprint(Kinds), "[]"), " ", ", ")))
		}
	}
	return nil
}

// What is what has happened to a thing, in one word. Each kind has a closed list: [Whats]. Only of jobs their frameworks
// say it in their own words.
type What string

// What can happen. The states of agents and tasks are words too, in lower case, and so are the outcomes of offers.
const (
	Figures      What = "" // nothing but figures
	Admitted     What = "admitted"
	Updated      What = "updated"
	Registered   What = "registered"
	Subscribed   What = "subscribed"
	Asked        What = "asked"
	Disconnected What = "disconnected"
	Removed      What = "removed"
	Refused      What = "refused"
	Unable       What = "unable"
	Able         What = "able"
	Draining     What = "draining"
	Drained      What = "drained"
	Deactivated  What = "deactivated"
	Reactivated  What = "reactivated"
	Gone         What = "gone"
	Launched     What = "launched"
	Reported     What = "reported"
	KillAsked    What = "kill asked"
	Started      What = "started"
	Ended        What = "ended"
	Lost         What = "lost"
	Made         What = "made"
	AskedBack         = What(view.AskedBack)
	TookBack          = What(view.TookBack)
	Done         What = "done"
	Set          What = "set"
	Created      What = "created"
	Destroying   What = "destroying"
	Destroyed    What = "destroyed"
	Orphaned     What = "orphaned"
	Failed       What = "failed"
	Planned      What = "planned"
	Canceled     What = "canceled"
	Begun        What = "begun"
	Won          What = "won"
	Granted      What = "granted"
	Taken        What = "taken"
	Revoked      What = "revoked"
	Used         What = "used"
	Rotated      What = "rotated"
)

// Whats are the words of each kind.
var Whats = map[Kind][]What{
	Agent: append([]What{Admitted, Updated, Registered, Removed, Refused, Unable, Able, Draining, Drained, Deactivated, Reactivated, Gone},
		StateOfAgent(api.AgentIniting), StateOfAgent(api.AgentRunning), StateOfAgent(api.AgentDisconnected), StateOfAgent(api.AgentTombstone)),
	Framework:   {Admitted, Updated, Subscribed, Asked, Disconnected, Removed, Refused},
	Task:        append([]What{Launched, Reported, KillAsked}, taskStates()...),
	Executor:    {Started, Reported, Ended, Lost},
	Offer:       append([]What{Made}, outcomes()...),
	Operation:   {Done, Refused},
	Role:        {Set},
	Volume:      {Created, Destroying, Destroyed, Orphaned, Failed},
	Reservation: {Set},
	Maintenance: {Planned, Canceled, Begun},
	Master:      {Set, Removed},
	Election:    {Won},
	Secret:      {Set, Removed},
	Token:       {Created, Used, Revoked},
	Principal:   {Granted, Taken, Revoked},
	Authority:   {Rotated},
}

// StateOfTask returns the word for a task's new state.
func StateOfTask(state api.TaskState) What { return taskWords[state] }

// EndOf returns the state in which a task has ended that this has happened to; false if it has not ended.
func EndOf(what What) (api.TaskState, bool) {
	state, is := taskEnds[what]
	return state, is
}

// StateOfAgent returns the word for an agent's new state.
func StateOfAgent(state api.AgentState) What { return What(strings.ToLower(state.String())) }

// taskWords are made once, because each status needs one.
var taskWords = func() (all [api.TaskUnknown + 1]What) {
	for state := range all {
		all[state] = What(strings.ToLower(api.TaskState(state).String()))
	}
	return all
}()

var taskEnds = func() map[What]api.TaskState {
	all := make(map[What]api.TaskState)
	for state, word := range taskWords {
		if api.TaskState(state).Terminal() {
			all[word] = api.TaskState(state)
		}
	}
	return all
}()

func taskStates() (all []What) {
	for state := api.TaskStaging; state <= api.TaskUnreachable; state++ {
		all = append(all, taskWords[state])
	}
	return all
}

func outcomes() []What {
	all := make([]What, 0, 8)
	for _, outcome := range []view.Outcome{view.Accepted, view.Declined, view.Expired, view.Rescinded, view.AskedBack, view.GaveBack,
		view.TookBack, view.Withdrawn} {
		all = append(all, What(outcome))
	}
	return all
}
