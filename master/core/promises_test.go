package core_test

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/view"
)

// The promises about offers, held against what schedulers are sent and what the leader shows.

// filterMax is longer than any filter that the chaos asks for.
const filterMax = 9 * time.Second

// watchOffers holds promise 8: what is offered leaves a role within its limit. By the time of the effect
// the books count the offer.
func (x *chaos) watchOffers(event protocol.SchedulerEvent) {
	switch event := event.(type) {
	case protocol.Rescind:
		x.mayHaveRefused()
	case protocol.Offers:
		offered := make(map[api.Role]api.Resources) // what is reserved counts before it is offered
		for _, offer := range event.Offers {
			offered[offer.Role] = offered[offer.Role].Plus(offer.Resources.UsableBy("").Firm())
		}
		for _, v := range view.PageOf(x.core.View(), view.RoleList, view.Query{}).Items {
			for _, limit := range v.Limit.Items() {
				if used := v.Allocated.Firm().Plain().Plus(v.Offered.Firm().Plain()).Scalar(limit.Name); used > limit.Scalar && offered[v.Role].Scalar(limit.Name) > 0 {
					x.t.Fatalf("%s is offered more: %v of %s used and offered, its limit is %v\n%s", v.Role, used, limit.Name, limit.Scalar, tail(x.out.String()))
				}
			}
		}
	default: // the others mean nothing here
	}
}

// nothingLies checks promise 9 after every move: what is free is offered, unless no framework wants it. A framework
// that has stated a demand, is under a limit or may have a filter is not checked.
func (x *chaos) nothingLies() {
	limited := make(map[api.Role]bool)
	for _, v := range view.PageOf(x.core.View(), view.RoleList, view.Query{}).Items {
		limited[v.Role] = !v.Limit.IsZero()
	}
	frameworks := view.PageOf(x.core.View(), view.FrameworkList, view.Query{}).Items
	for _, fw := range frameworks {
		if len(fw.Demand) > 0 {
			x.demanded = true // what preemption frees may be kept for it
		}
	}
	if x.demanded && x.policyName == "priority" || x.now.Before(x.unsure.Add(filterMax)) {
		return
	}
	for _, fw := range frameworks {
		if fw.State != "active" || len(fw.Demand) > 0 || len(fw.Suppressed) > 0 || x.now.Before(x.refused[fw.Framework.ID].Add(filterMax)) {
			continue
		}
		for _, role := range fw.Framework.Roles {
			if !limited[role] {
				x.takesAll(fw.Framework, role)
			}
		}
	}
}

func (x *chaos) takesAll(fw api.Framework, role api.Role) {
	for _, a := range view.PageOf(x.core.View(), view.AgentList, view.Query{}).Items {
		if a.State != api.AgentRunning && a.State != api.AgentBusy || a.Marks != 0 || a.State == api.AgentRunning && a.Why != "" || x.core.SettlesLostAccepts(a.Agent.ID) {
			continue
		}
		left := a.Free.UsableBy(role)
		open := left.Firm().Plain().Without(x.core.UsedBeyond(a.Agent.ID)) // resources in use are not offered (R28)
		if fw.Revocable {
			open = open.Plus(left.Revocable().Plain())
		}
		if worthOffering(open) {
			why, _ := x.core.View().Explain(string(fw.ID), string(a.Agent.ID), x.now)
			x.t.Fatalf("%v of %s is free and nobody has it, though %s wants anything in role %s; explain says %v\n%s",
				left, a.Agent.ID, fw.ID, role, why, tail(x.out.String()))
		}
	}
	x.asked++
}

// worthOffering: policies keep what is less than the smallest task needs until more of it is free.
func worthOffering(left api.Resources) bool {
	return left.Scalar("cpus") >= 10 || left.Scalar("mem") >= 32_000
}

// mayHaveRefused notes that any framework may have a filter from now on: its offers may have expired; what
// waited for the registry leaves its filters when that has agreed.
func (x *chaos) mayHaveRefused() { x.unsure = x.now }

// hasRefused notes that the framework may have a filter from now on.
func (x *chaos) hasRefused(f *fakeFramework) { x.refused[f.info.ID] = x.now }
