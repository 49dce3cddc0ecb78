package core_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// follower keeps a copy of the leader's lists by what the core notes. It reads again only what was noted.
type follower struct {
	agents     map[api.AgentID]view.Agent
	frameworks map[api.FrameworkID]view.Framework
	tasks      map[api.TaskRef]view.Task
	offers     map[api.OfferID]view.Offer
	dirty      map[change.Row]bool
	seen       map[change.Kind]map[change.What]int
	wrong      error // a word that is in no list
	seldom     bool  // it is compared with the lists when the test asks for it, and not after each step
}

func newFollower() *follower {
	f := &follower{seen: make(map[change.Kind]map[change.What]int)}
	f.forget()
	return f
}

// forget begins anew, as with a new leader.
func (f *follower) forget() {
	f.agents, f.frameworks = make(map[api.AgentID]view.Agent), make(map[api.FrameworkID]view.Framework)
	f.tasks, f.offers, f.dirty = make(map[api.TaskRef]view.Task), make(map[api.OfferID]view.Offer), make(map[change.Row]bool)
}

// begin reads everything.
func (f *follower) begin(c *core.Core) {
	f.forget()
	f.agents, f.frameworks, f.tasks, f.offers = listed(c)
}

func listed(c *core.Core) (map[api.AgentID]view.Agent, map[api.FrameworkID]view.Framework, map[api.TaskRef]view.Task, map[api.OfferID]view.Offer) {
	agents, frameworks := make(map[api.AgentID]view.Agent), make(map[api.FrameworkID]view.Framework)
	tasks, offers := make(map[api.TaskRef]view.Task), make(map[api.OfferID]view.Offer)
	v := c.View()
	for _, a := range view.PageOf(v, view.AgentList, view.Query{}).Items {
		agents[a.Agent.ID] = a
	}
	for _, fw := range view.PageOf(v, view.FrameworkList, view.Query{}).Items {
		frameworks[fw.Framework.ID] = fw
	}
	for _, t := range view.PageOf(v, view.TaskList, view.Query{}).Items {
		tasks[api.TaskRef{Framework: t.Framework, Task: t.Task.ID}] = t
	}
	for _, o := range view.PageOf(v, view.OfferList, view.Query{}).Items {
		offers[o.Offer.ID] = o
	}
	return agents, frameworks, tasks, offers
}

// note takes what the core has noted.
func (f *follower) note(records []change.Record) {
	for _, r := range records {
		if r.IsEvent() {
			if f.seen[r.Kind] == nil {
				f.seen[r.Kind] = make(map[change.What]int)
			}
			f.seen[r.Kind][r.What]++
			if r.Kind != change.Job && !slices.Contains(change.Whats[r.Kind], r.What) {
				f.wrong = fmt.Errorf("the core notes that %s was %q, a word that its list lacks", r.Of(), r.What)
			}
		}
		r.Touches(func(row change.Row) { f.dirty[row] = true })
	}
}

// catchUp reads again what was noted since the last call.
func (f *follower) catchUp(c *core.Core) {
	v := c.View()
	for row := range f.dirty {
		switch row.Kind {
		case change.Agent:
			renew(f.agents, api.AgentID(row.Name), v.OneAgent)
		case change.Framework:
			renew(f.frameworks, api.FrameworkID(row.Name), func(id api.FrameworkID) (view.Framework, bool) { return v.OneFramework(id, allocator.Shares{}) })
		case change.Task:
			renew(f.tasks, api.TaskRef{Framework: api.FrameworkID(row.Name), Task: api.TaskID(row.Within)}, v.OneTask)
		default:
			renew(f.offers, api.OfferID(row.Name), v.OneOffer)
		}
	}
	clear(f.dirty)
}

func renew[K comparable, V any](all map[K]V, key K, read func(K) (V, bool)) {
	if v, there := read(key); there {
		all[key] = v
	} else {
		delete(all, key)
	}
}

// check compares the copy with the lists.
func (f *follower) check(c *core.Core) error {
	f.catchUp(c)
	agents, frameworks, tasks, offers := listed(c)
	for _, all := range []map[api.AgentID]view.Agent{agents, f.agents} { // figures of use are as they were when something else changed
		for id, a := range all {
			a.Usage, a.Revocable, a.Occupied, a.Free = protocol.UsageReport{}, api.Resources{}, api.Resources{}, a.Free.Firm()
			all[id] = a
		}
	}
	for _, all := range []map[api.FrameworkID]view.Framework{frameworks, f.frameworks} {
		for id, fw := range all {
			fw.DominantShare, fw.FailoverEnds = 0, fw.Since
			all[id] = fw
		}
	}
	for _, all := range []map[api.TaskRef]view.Task{tasks, f.tasks} {
		for ref, t := range all {
			t.Usage, t.Status.Previous = api.Usage{}, 0
			all[ref] = t
		}
	}
	for _, all := range []map[api.OfferID]view.Offer{offers, f.offers} { // lists do not show these
		for id, o := range all {
			o.Offer.Executors, o.Offer.Unavailable = nil, nil
			all[id] = o
		}
	}
	return cmp.Or(f.wrong, differ("agent", f.agents, agents), differ("framework", f.frameworks, frameworks), differ("task", f.tasks, tasks), differ("offer", f.offers, offers))
}

func differ[K comparable, V any](kind string, have, want map[K]V) error {
	keys := maps.Clone(have)
	maps.Copy(keys, want)
	for key := range keys {
		h, has := have[key]
		w, wants := want[key]
		if has != wants || !reflect.DeepEqual(h, w) && fmt.Sprintf("%+v", h) != fmt.Sprintf("%+v", w) {
			return fmt.Errorf("who follows the notes has %s %v as\n  %v %+v\nand the list as\n  %v %+v", kind, key, has, h, wants, w)
		}
	}
	return nil
}

// TestEveryMoveOfATaskIsNoted: whichever legal move an agent or executor reports, it is an event (R68).
func TestEveryMoveOfATaskIsNoted(t *testing.T) {
	ways := map[api.TaskState][]api.TaskState{ // how a task comes into a state
		api.TaskStaging: nil, api.TaskStarting: {api.TaskStarting}, api.TaskRunning: {api.TaskRunning},
		api.TaskKilling: {api.TaskRunning, api.TaskKilling},
	}
	for from, way := range ways {
		for to := api.TaskStarting; to <= api.TaskGone; to++ {
			reason := api.ReasonNone
			switch {
			case api.MayMove(from, to, api.MoverExecutor):
			case api.MayMove(from, to, api.MoverAgent):
				reason = api.ReasonTaskInvalid // status says by it that the agent speaks
			default:
				continue
			}
			w := newWorld(policyNamed("fairshare"), core.Config{})
			w.quiet = true
			w.lead()
			w.verbOfAgents("agent", transcript.Parse("agent a1 cpus=4 mem=4096"))
			w.verbOfFrameworks("framework", transcript.Parse("framework f1"))
			w.verbOfFrameworks("accept", transcript.Parse("accept f1 offer-1-1 t1=cpus:1;mem:32"))
			a := w.agents["a1"]
			if len(a.tasks) != 1 {
				t.Fatalf("it has %d tasks: %s", len(a.tasks), w.out.String())
			}
			ref := a.refs()[0]
			for _, state := range way {
				w.status(a, ref, state, api.ReasonNone)
			}
			w.follows = newFollower()
			w.follows.begin(w.core)
			w.status(a, ref, to, reason)
			if w.follows.seen[change.Task][change.StateOfTask(to)] == 0 {
				t.Errorf("a task that was %s became %s, and the core notes %v", from, to, w.follows.seen)
			}
		}
	}
}

// TestEveryCommandIsNoted: each change of the registry is an event, or one that nobody's list shows (R68).
func TestEveryCommandIsNoted(t *testing.T) {
	quiet := []string{"Bootstrap", "RaiseEpoch", "RaiseFormat", "CheckHash", "PutEntry", "DeleteEntry", "ForgetKills", "Expire", "BeginReceipts", "RecordUsage"}
	grant := rights.Grant{Verb: rights.View}
	for name, story := range map[string][]registry.Change{
		"SetMaster":    {registry.SetMaster{ID: "m2", Master: registry.Master{GRPC: "m2:5060"}}},
		"RemoveMaster": {registry.SetMaster{ID: "m2", Master: registry.Master{GRPC: "m2:5060"}}, registry.RemoveMaster{ID: "m2"}},
		"AdmitAgent":   {registry.AdmitAgent{Agent: api.Agent{Hostname: "h2", Resources: api.Scalars(1, 1)}, Nonce: "n2"}},
		"UpdateAgent":  {registry.UpdateAgent{Agent: api.Agent{ID: "agent-1", Hostname: "h3", Resources: api.Scalars(4, 4096)}, BootID: "b"}},
		"MarkAgent":    {registry.MarkAgent{ID: "agent-1", Saw: registry.Whatever, Set: api.MarkDraining}},
		"RemoveAgent":  {registry.RemoveAgent{ID: "agent-1", Nonce: "nonce-a1", Saw: registry.Whatever}},
		"SetMaintenance": {registry.SetMaintenance{Agents: []api.AgentID{"agent-1"}, Saw: []uint64{registry.Whatever},
			Window: api.Window{Start: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}}},
		"BeginMaintenance": {registry.SetMaintenance{Agents: []api.AgentID{"agent-1"}, Saw: []uint64{registry.Whatever},
			Window: api.Window{Start: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}}, registry.BeginMaintenance{ID: "agent-1", Saw: registry.Whatever}},
		"SetReserved": {registry.SetReserved{ID: "agent-1"}},
		"KeepKill":    {registry.KeepKill{ID: "agent-1", Task: api.TaskRef{Framework: "framework-1", Task: "t1"}}},
		"DestroyOrphan": {registry.DestroyOrphan{ID: "agent-1", Generation: 7,
			Volume: api.Resource{Label: api.Label{Name: "disk", Reserved: "web", Volume: "v1"}, Scalar: 1000}}},
		"VolumeGone": {registry.DestroyOrphan{ID: "agent-1", Generation: 7,
			Volume: api.Resource{Label: api.Label{Name: "disk", Reserved: "web", Volume: "v1"}, Scalar: 1000}},
			registry.VolumeGone{ID: "agent-1", Volume: "v1", Generation: 7}},
		"Subscribe":       {registry.Subscribe{Framework: api.Framework{Name: "f2", Roles: []api.Role{"web"}}, Instance: "i2"}},
		"Readmit":         {registry.Readmit{Framework: api.Framework{ID: "framework-7", Name: "f7", Roles: []api.Role{"web"}}}},
		"UpdateFramework": {registry.UpdateFramework{Framework: api.Framework{ID: "framework-1", Name: "f1", Roles: []api.Role{"other"}}, Session: 1}},
		"RemoveFramework": {registry.RemoveFramework{ID: "framework-1", Session: registry.Whatever, Why: "no more"}},
		"SetRole":         {registry.SetRole{Role: "web", Set: registry.Role{Weight: 2}, SawQuotas: registry.Whatever}},
		"Grant":           {registry.Grant{Principal: "ann", Grant: grant}},
		"TakeGrant":       {registry.Grant{Principal: "ann", Grant: grant}, registry.TakeGrant{Principal: "ann", Grant: grant}},
		"RevokePrincipal": {registry.Grant{Principal: "ann", Grant: grant}, registry.RevokePrincipal{Principal: "ann", SawGrants: []rights.Grant{grant}}},
		"CreateToken":     {registry.CreateToken{Token: registry.Token{ID: "t1", Kind: "agent", Hash: "h", By: "person ann"}}},
		"UseToken": {registry.CreateToken{Token: registry.Token{ID: "t1", Kind: "agent", Hash: "h", UsesMax: 2}},
			registry.UseToken{ID: "t1", Key: "k"}},
		"RevokeToken":     {registry.CreateToken{Token: registry.Token{ID: "t1", Kind: "agent", Hash: "h"}}, registry.RevokeToken{ID: "t1"}},
		"RotateAuthority": {registry.RotateAuthority{Digest: strings.Repeat("ab", 32), Sealed: []byte("x"), FormerEnds: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"SetSecret":       {registry.SetSecret{ID: "web/s", Sealed: []byte("x"), By: "ann"}},
		"RemoveSecret":    {registry.SetSecret{ID: "web/s", Sealed: []byte("x")}, registry.RemoveSecret{ID: "web/s", Saw: time.Time{}}},
	} {
		w := newWorld(policyNamed("fairshare"), core.Config{})
		w.quiet = true
		w.lead()
		w.verbOfAgents("agent", transcript.Parse("agent a1 cpus=4 mem=4096"))
		w.verbOfFrameworks("framework", transcript.Parse("framework f1"))
		w.follows = newFollower()
		w.follows.begin(w.core)
		for i, one := range story {
			if remove, is := one.(registry.RemoveSecret); is {
				remove.Saw = w.registry.Secrets[remove.ID].Set
				one = remove
			}
			if i == len(story)-1 {
				clear(w.follows.seen)
			}
			w.proposed = append(w.proposed, registry.Command{Client: "operator", Counter: uint64(i + 1), At: w.now, Change: one})
			w.commit()
		}
		if last := w.registry.Clients["operator"].Result; last.Err != nil {
			t.Errorf("%s is refused: %v", name, last.Err)
		}
		if len(w.follows.seen) == 0 {
			t.Errorf("the core notes no event when %s is committed", name)
		}
		quiet = append(quiet, name)
	}
	w := newWorld(policyNamed("fairshare"), core.Config{})
	w.quiet = true
	w.lead()
	w.follows = newFollower()
	w.follows.begin(w.core)
	for i := range 2 {
		w.proposed = append(w.proposed, registry.Command{Client: "operator", Counter: uint64(i + 1), At: w.now, Change: registry.Grant{Principal: "ann", Grant: grant}})
		w.commit()
	}
	if given := w.follows.seen[change.Principal][change.Granted]; given != 1 {
		t.Errorf("a grant that is given twice is noted %d times", given)
	}
	source, err := os.ReadFile("../registry/seen.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`func \((?:change )?(\w+)\) saw\(\) sight`).FindAllStringSubmatch(string(source), -1) {
		if !slices.Contains(quiet, found[1]) {
			t.Errorf("%s is in no story here: say what event follows it, or that there is none", found[1])
		}
	}
}
