package verify

import (
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

var at = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func bundle(text string) api.Resources {
	resources, err := api.ParseResources(text)
	if err != nil {
		panic(err)
	}
	return resources
}

// well returns a look at a cluster that is well: a task and an executor on one agent, an offer of another, a volume.
// Sums of frameworks and roles are of scalars only: ports of several agents can't be added up.
func well() Look {
	ref := api.TaskRef{Framework: "f1", Task: "t1"}
	own, volume := bundle("cpus:4;mem:100"), "cpus:4;mem:100;disk(eng,dynamic,volume=v1):10;ports:[1-9]"
	return Look{
		At: at,
		Masters: []Master{
			{Name: "m1", Cluster: "c", Folder: "x", Member: "x", Leads: true, Index: 7, Hash: "h"},
			{Name: "m2", Cluster: "c", Folder: "y", Member: "y", Index: 7, Hash: "h"},
		},
		Agents: []Agent{
			{ID: "a1", Address: "h1:1", State: "RUNNING", Total: own, Allocated: bundle("cpus:1.1;mem:20"), Tasks: 1, Said: &Said{
				Agent: "a1", Registered: true, Resources: own, Tasks: []AgentTask{{ref, api.TaskRunning, bundle("cpus:1;mem:10")}},
				Executors: []Executor{{api.ExecutorRef{Framework: "f1", Executor: "e"}, bundle("cpus:0.1;mem:10")}},
			}},
			{ID: "a2", Address: "h2:1", State: "RUNNING", Total: bundle(volume), Offered: bundle("cpus:2;ports:[1-2]"), Volumes: map[api.VolumeID]uint64{"v1": 5}, Said: &Said{
				Agent: "a2", Registered: true, Resources: bundle("cpus:4;mem:100;disk:10;ports:[1-9]"), Volumes: []Volume{{ID: "v1", Generation: 5}},
			}},
		},
		Frameworks: []Framework{{
			ID: "f1", State: "active", Roles: []api.Role{"eng/web"}, Allocated: bundle("cpus:1.1;mem:20"), Offered: bundle("cpus:2"),
			Tasks: 1, Offers: 1, Demand: []Demand{{"eng/web", 3}},
		}},
		Tasks:  []Task{{Ref: ref, Agent: "a1", Role: "eng/web", State: api.TaskRunning, Resources: bundle("cpus:1;mem:10"), Launched: at}},
		Offers: []Offer{{ID: "o1", Framework: "f1", Agent: "a2", Resources: bundle("cpus:2;ports:[1-2]")}},
		Roles: []Role{
			{Role: "eng", Allocated: bundle("cpus:1.1;mem:20"), Offered: bundle("cpus:2"), Reserved: bundle("disk:10"), Limit: bundle("cpus:4")},
			{Role: "eng/web", Allocated: bundle("cpus:1.1;mem:20"), Offered: bundle("cpus:2")},
		},
	}
}

// TestEachBreakIsNamed: each way in which what is said may not fit together has its finding, and nothing else is found (R63).
func TestEachBreakIsNamed(t *testing.T) {
	if found := Check(well()); len(found) > 0 {
		t.Fatalf("in a cluster that is well: %v", found)
	}
	for name, test := range map[string]struct {
		damage func(*Look)
		want   string // what is found, joined by "|"
	}{
		"a registry differs": {func(l *Look) { l.Masters[1].Hash = "x" }, "master m2 keeps another registry than master m1 at the same place of the log (promise 5)"},
		"two lead":           {func(l *Look) { l.Masters[1].Leads = true }, "master m2 says that it leads, and so does master m1 (promise 4)"},
		"nobody leads":       {func(l *Look) { l.Masters[0].Leads = false }, "the quorum has no master that leads (promise 5)"},
		"another cluster":    {func(l *Look) { l.Masters[1].Cluster = "d" }, "master m2 belongs to cluster d, and master m1 to c (R51)"},
		"a master is unwell": {func(l *Look) { l.Masters[1].Why = "its disk is full" }, "master m2 is not well: its disk is full (R51)"},
		"a task is lost": {func(l *Look) { l.Agents[0].Said.Tasks = nil; l.Agents[0].Allocated = bundle("cpus:0.1;mem:10") },
			"task f1/t1 is RUNNING on agent a1 as the leader says, and the agent does not have it (promise 7)"},
		"a task has ended": {func(l *Look) {
			l.Agents[0].Said.Tasks[0].State = api.TaskFinished
			l.Agents[0].Allocated = bundle("cpus:0.1;mem:10")
		}, "task f1/t1 is RUNNING as the leader says, and has ended FINISHED on agent a1 (promise 3)"},
		"a state differs": {func(l *Look) { l.Agents[0].Said.Tasks[0].State = api.TaskKilling },
			"task f1/t1 is RUNNING as the leader says, and KILLING as agent a1 says (promise 7)"},
		"a task that nobody knows": {func(l *Look) {
			l.Agents[1].Said.Tasks = []AgentTask{{api.TaskRef{Framework: "f1", Task: "t2"}, api.TaskRunning, api.Resources{}}}
		}, "task f1/t2 is RUNNING on agent a2, and the leader does not know it (promise 7)"},
		"a task on two agents": {func(l *Look) {
			l.Agents[1].Said.Tasks = []AgentTask{{l.Tasks[0].Ref, api.TaskRunning, api.Resources{}}}
		},
			"task f1/t1 is on agent a1 as the leader says, and RUNNING on agent a2 (R9)|task f1/t1 is on agents a1 and a2 at once (R9)"},
		"a task is too large": {func(l *Look) {
			l.Agents[0].Said.Tasks[0].Resources = bundle("cpus:1;mem:11")
			l.Agents[0].Allocated = bundle("cpus:1.1;mem:21")
		}, "task f1/t1 is booked with cpus:1;mem:10, and agent a1 gives it cpus:1;mem:11 (R25)"},
		"a task of nobody": {func(l *Look) {
			l.Tasks[0].Ref.Framework, l.Agents[0].Said.Tasks[0].Ref.Framework, l.Frameworks[0].Tasks = "f2", "f2", 0
		},
			"task f2/t1 is RUNNING, and nobody knows its framework (R21)"},
		"a task nowhere": {func(l *Look) {
			l.Tasks[0].Agent = "a3"
			l.Agents[0].Said.Tasks = nil
			l.Agents[0].Tasks = 0
			l.Agents[0].Allocated = bundle("cpus:0.1;mem:10")
		},
			"task f1/t1 is RUNNING on agent a3, which nobody knows (promise 3)"},
		"unreachable on an agent that is there": {func(l *Look) { l.Tasks[0].State = api.TaskUnreachable; l.Agents[0].Said = nil },
			"task f1/t1 is UNREACHABLE, and its agent a1 is RUNNING (R30)"},
		"an executor of nobody": {func(l *Look) {
			l.Agents[1].Said.Executors = []Executor{{api.ExecutorRef{Framework: "f9", Executor: "e"}, api.Resources{}}}
		}, "executor f9/e is on agent a2, and its framework is removed or nobody knows it (R21)"},
		"a wrong sum": {func(l *Look) { l.Agents[0].Allocated = bundle("cpus:2;mem:20") },
			"agent a1 is booked with cpus:2;mem:20 in use, and its tasks and executors hold cpus:1.1;mem:20 (R25)"},
		"a wrong count": {func(l *Look) { l.Agents[0].Tasks = 2; l.Frameworks[0].Tasks = 2 },
			"agent a1 is booked with 2 tasks, and 1 are listed (R25)|framework f1 is booked with 2 tasks, and 1 are listed (R25)"},
		"an offer too many": {func(l *Look) { l.Frameworks[0].Offers = 2 },
			"framework f1 is booked with 2 offers of cpus:2, and 1 of cpus:2 are listed (R25)"},
		"offered and not listed": {func(l *Look) { l.Agents[1].Offered = bundle("cpus:3") },
			"agent a2 is booked with cpus:3 offered, and its offers hold cpus:2;ports:[1-2] (R25)"},
		"oversold": {func(l *Look) {
			l.Agents[1].Total = bundle("cpus:1;mem:100;disk(eng,dynamic,volume=v1):10")
			l.Agents[1].Why = "came back with less"
		},
			"agent a2 has cpus:1;disk(eng,dynamic,volume=v1):10;mem:100 and lends nothing; nothing of it is allocated and cpus:2;ports:[1-2] offered (promise 1)"},
		"lent twice": {func(l *Look) {
			l.Agents[1].Revocable, l.Agents[1].Offered = bundle("cpus(revocable):1"), bundle("cpus(revocable):2")
			l.Offers[0].Resources, l.Frameworks[0].Offered = l.Agents[1].Offered, l.Agents[1].Offered
		}, "agent a2 has cpus:4;disk(eng,dynamic,volume=v1):10;mem:100;ports:[1-9] and lends cpus(revocable):1; nothing of it is allocated and cpus(revocable):2 offered (promise 1)"},
		"drained with a task": {func(l *Look) { l.Agents[0].Marks = []string{"draining", "drained"} },
			"agent a1 is marked drained, and f1/t1 is on it (R31)"},
		"drained and not draining": {func(l *Look) { l.Agents[1].Marks = []string{"drained"} },
			"agent a2 is marked drained and does not drain (R31)"},
		"offered while deactivated": {func(l *Look) { l.Agents[1].Marks = []string{"deactivated"} },
			"agent a2 is deactivated, and cpus:2;ports:[1-2] of it is offered (R30)"},
		"offered while away": {func(l *Look) { l.Agents[1].State = "DISCONNECTED"; l.Agents[1].Said = nil },
			"agent a2 is DISCONNECTED, and cpus:2;ports:[1-2] of it is offered (R30)"},
		"gone and there": {func(l *Look) { l.Agents[0].Marks = []string{"gone"} }, "agent a1 is marked gone and has a session (R16)"},
		"another agent answers": {func(l *Look) { l.Agents[1].Said.Agent = "a7" },
			"agent a2 is expected at h2:1, where agent a7 answers (R7)"},
		"two at one address": {func(l *Look) { l.Agents[1].Address = "h1:1" }, "agent a2 is at h1:1, and so is agent a1 (R7)"},
		"no session as it says": {func(l *Look) { l.Agents[1].Said.Registered = false },
			"agent a2 is RUNNING, and says itself that it is not registered (R30)"},
		"another size": {func(l *Look) { l.Agents[0].Said.Resources = bundle("cpus:3;mem:100") },
			"agent a1 is booked with cpus:4;mem:100, and has cpus:3;mem:100 (R25)"},
		"a volume is missing": {func(l *Look) { l.Agents[1].Said.Volumes = nil },
			"agent a2 does not have volume v1, which is booked there (R22)"},
		"an earlier volume of that ID": {func(l *Look) { l.Agents[1].Said.Volumes[0].Generation = 3 },
			"agent a2 has generation 3 of volume v1, and generation 5 is booked there (R22)"},
		"a volume without its folder": {func(l *Look) { l.Agents[1].Said.Volumes[0].Lost = true },
			"agent a2 has volume v1, and no folder with its data (R22)"},
		"a volume that is only reserved": {func(l *Look) { l.Agents[1].Volumes = nil; l.Agents[1].Said.Volumes = nil },
			"agent a2 is booked with volume v1, which the registry does not have (R22)"},
		"another folder": {func(l *Look) { l.Masters[1].Folder = "z" },
			"master m2 answers from the folder z, and the quorum counts the folder y (R51)"},
		"a volume too many": {func(l *Look) { l.Agents[0].Said.Volumes = []Volume{{ID: "v2"}} },
			"agent a1 has volume v2, of which the leader does not know (R22)"},
		"an orphaned volume": {func(l *Look) {
			l.Agents[0].Said.Volumes, l.Agents[0].Orphaned = []Volume{{ID: "v2"}}, []OrphanedVolume{{"v2", "nobody knows it"}}
		}, "agent a1 has volume v2, which the registry does not know: nobody knows it (R22)"},
		"a task that nobody launched": {func(l *Look) { l.Agents[1].Apart = []string{"f9/t9"} },
			"agent a2 reports task f9/t9, which no leader has launched there (R40)"},
		"an offer to nobody": {func(l *Look) { l.Frameworks[0].State = "disconnected" },
			"offer o1 is held by framework f1, which has no session (R30)"},
		"a demand in no role of its own": {func(l *Look) { l.Frameworks[0].Demand[0].Role = "ops" },
			"framework f1 wants 3 tasks in role ops, and is in [eng/web] (R38)"},
		"a reservation that is nowhere": {func(l *Look) { l.Roles[0].Reserved = bundle("disk:11") },
			"role eng is booked with disk:11 reserved, and on its agents disk:10 is (R25)"},
		"above its limit": {func(l *Look) { l.Roles[0].Limit = bundle("cpus:3") },
			"role eng has the limit cpus:3; cpus:1.1;mem:20 is allocated and cpus:2 offered (R29)"},
		"roles hold more than frameworks": {func(l *Look) { l.Roles[0].Allocated = bundle("cpus:2;mem:20") },
			"the roles are booked with cpus:2;mem:20 in use, and their frameworks with cpus:1.1;mem:20 (R25)"},
	} {
		look := well()
		test.damage(&look)
		var said []string
		for _, f := range Check(look) {
			said = append(said, f.String())
		}
		if got := strings.Join(said, "|"); got != test.want {
			t.Errorf("%s:\n  %s\nwant\n  %s", name, got, test.want)
		}
	}
}

// TestEndsThatNobodyAcknowledges: the end of a task whose framework is away is listed, and no break.
func TestEndsThatNobodyAcknowledges(t *testing.T) {
	look := well()
	ended := look.Tasks[0]
	ended.Ref.Task, ended.State, ended.Resources = "ended", api.TaskFinished, api.Resources{}
	look.Tasks = append(look.Tasks, ended)
	for i := range look.Agents {
		if said := look.Agents[i].Said; said != nil && look.Agents[i].ID == ended.Agent {
			said.Tasks = append(said.Tasks, AgentTask{Ref: ended.Ref, State: ended.State})
		}
	}
	if found := Check(look); len(found) > 0 {
		t.Errorf("an end that is not acknowledged: %v", found)
	}
}

// TestOnlyWhatLastsCounts: what the next look does not find was in flight, also when it finds the same of a later launch
// or with another amount. What one look could see was seen.
func TestOnlyWhatLastsCounts(t *testing.T) {
	lost := func(launched time.Time, more string) Look {
		look := well()
		look.Tasks[0].Launched, look.Agents[0].Said.Tasks = launched, nil
		look.Agents[1].Offered = bundle("cpus:" + more)
		look.At = launched
		return look
	}
	var watch Watch
	watch.Add(lost(at, "3"))
	if len(watch.Found()) != 3 || !watch.Found()[0].Since.Equal(at) {
		t.Fatalf("in the first look: %v", watch.Found())
	}
	watch.Add(lost(at.Add(time.Second), "3.5"))
	if found := watch.Found(); len(found) != 1 || found[0].What != "agent a1" || !found[0].Since.Equal(at) {
		t.Errorf("of two launches, of which each has lost its task, and two sums: %v", found)
	}
	watch.Add(well())
	if !watch.Well() {
		t.Errorf("once all was well: %v", watch.Found())
	}

	blind := well()
	blind.Agents[0].Said, blind.Unseen = nil, []Unseen{{"agent a1", "it does not answer"}}
	blind.Masters[1].Index = 8
	watch = Watch{}
	watch.Add(blind)
	if watch.Well() || len(watch.Unseen()) != 3 {
		t.Errorf("an agent and the hashes were not seen: %v", watch.Unseen())
	}
	watch.Add(well())
	if !watch.Well() {
		t.Errorf("they were seen once: %v", watch.Unseen())
	}
}
