package frameworktest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/verify"
	"github.com/tenderhq/tender/internal/verify/views"
)

// inspectEvery is how often, while a story waits, the leader's view is checked against promise 1.
const inspectEvery = time.Second

// inspectView checks the leader's view of the agents against promise 1, at most once in inspectEvery.
func (h *Handle) inspectView() {
	if time.Since(h.inspected) < inspectEvery {
		return
	}
	h.inspected = time.Now()
	agents, err := h.operator.agents()
	if err != nil {
		return // nobody leads, so there is no view
	}
	var look verify.Look
	if err := (views.Lists{Agents: agents}).Fill(&look); err != nil {
		h.t.Fatal(err)
	}
	for i := range look.Agents {
		if a := &look.Agents[i]; a.Oversold() {
			h.journal.noteBroken("the leader has oversold %s: %v allocated and %v offered of %v, and of %v that is lent (promise 1)",
				a.ID, a.Allocated, a.Offered, a.Total, a.Revocable)
		}
	}
}

func amount(bundle *structpb.Struct, name string) float64 {
	return bundle.GetFields()[name].GetNumberValue()
}

// AwaitAgreement waits until the leader's view of what runs agrees with what really runs on the machines (promise 7).
// The tasks must run for longer than it takes to look.
func (h *Handle) AwaitAgreement() {
	h.t.Helper()
	var difference string
	defer func() {
		if h.t.Failed() {
			h.t.Logf("the leader's picture and the machines: %s", difference)
		}
	}()
	h.Await("the leader to know exactly what runs", func() bool {
		difference = h.findDifference()
		return difference == ""
	})
}

// findDifference returns where the leader's view is wrong; "" if it is right.
func (h *Handle) findDifference() string {
	tasks, err := h.operator.tasks()
	if err != nil {
		return err.Error()
	}
	var known, running []string
	for _, t := range tasks {
		if t.GetState() == api.TaskRunning.String() || t.GetState() == api.TaskKilling.String() {
			known = append(known, t.GetFrameworkId()+"/"+t.GetId())
		}
	}
	for _, a := range h.agents {
		for _, ref := range a.Tasks() {
			running = append(running, ref.String())
		}
	}
	slices.Sort(known)
	slices.Sort(running)
	if slices.Equal(known, running) {
		return ""
	}
	return fmt.Sprintf("it knows %d, %d run; only known: %v; only running: %v",
		len(known), len(running), without(known, running), without(running, known))
}

func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

// AwaitEmpty waits until no executor is left on any machine, and all masters that run hold the same (promise 5).
func (h *Handle) AwaitEmpty() {
	h.t.Helper()
	h.Await("all executors to end", func() bool {
		return !slices.ContainsFunc(h.agents, func(a *Agent) bool { return len(a.host.listProcesses()) > 0 })
	})
	h.Await("equal registries", h.registriesAgree)
}

// registriesAgree says whether all masters that run keep the same.
func (h *Handle) registriesAgree() bool {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	var look verify.Look
	for _, m := range h.masters {
		if !m.Running() {
			continue
		}
		hash, err := apiv1.NewRaftServiceClient(h.operator.conn(m.grpcAddress())).StateHash(ctx, &apiv1.StateHashRequest{})
		if err != nil {
			return false
		}
		look.Masters = append(look.Masters, verify.Master{Name: m.host, Leads: m == h.findLeader(), Index: hash.GetAppliedIndex(), Hash: hash.GetHash()})
	}
	var watch verify.Watch
	watch.Add(look)
	return watch.Well()
}

// demandsSettleIn is how long the leader's view of a demand may differ from the scheduler's own. A message may be lost
// with its session; the next session sends it again.
const demandsSettleIn = time.Minute

// inspectDemands checks the demands that the leader shows against those that the schedulers themselves have left. (R38)
func (h *Handle) inspectDemands() {
	wrong := h.wrongDemand()
	for began := time.Now(); wrong != "" && time.Since(began) < demandsSettleIn; wrong = h.wrongDemand() {
		time.Sleep(inspectEvery)
	}
	if wrong != "" {
		h.journal.noteBroken("%s (rule R38)", wrong)
	}
}

// wrongDemand returns whose demand the leader shows wrongly; "" if there is none.
func (h *Handle) wrongDemand() string {
	views, err := h.operator.frameworks()
	if err != nil {
		return "" // nobody leads, so there is no view
	}
	for _, view := range views {
		if view.GetState() != "active" {
			continue
		}
		shown := shownDemand(view)
		wanted := h.wantedBy(api.FrameworkID(view.GetId()), view.GetRoles())
		if len(wanted) > 0 && !slices.Contains(wanted, shown) {
			return fmt.Sprintf("%s wants [%s], the leader shows [%s]", view.GetId(), strings.Join(wanted, "] or ["), shown)
		}
	}
	return ""
}

// wantedBy returns what is left of its demand for each process that has been this framework.
func (h *Handle) wantedBy(id api.FrameworkID, roles []string) (all []string) {
	for _, f := range h.frameworks {
		f.mu.Lock()
		client, of := f.client, f.id
		f.mu.Unlock()
		if client == nil || of != id {
			continue
		}
		sums := make(demandSums)
		known := true
		for _, role := range roles {
			shapes, stated := client.Wanted(api.Role(role))
			known = known && stated
			for _, shape := range shapes {
				sums.add(role, shape.Resources.Scalar("cpus").Float(), shape.Resources.Scalar("mem").Float(), shape.Count)
			}
		}
		if known {
			all = append(all, sums.String())
		}
	}
	return all
}

func shownDemand(view *apiv1.FrameworkView) string {
	sums := make(demandSums)
	for _, demand := range view.GetDemand() {
		sums.add(demand.GetRole(), amount(demand.GetResources(), "cpus"), amount(demand.GetResources(), "mem"), demand.GetCount())
	}
	return sums.String()
}

// demandSums adds up what is wanted, by role and size. Constraints are left out, because only the leader knows which of
// two a task has met.
type demandSums map[string]int64

func (d demandSums) add(role string, cpus, mem float64, count int64) {
	d[fmt.Sprintf("%s: cpus:%v;mem:%v", role, cpus, mem)] += count
}

func (d demandSums) String() string {
	var words []string
	for _, size := range slices.Sorted(maps.Keys(d)) {
		words = append(words, fmt.Sprintf("%s x %d", size, d[size]))
	}
	return strings.Join(words, ", ")
}
