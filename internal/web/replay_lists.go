package web

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
)

// offersOpenFor is how long behind the moment an end of an offer is looked for; an offer that was open for longer is not
// shown, unless it still is.
const offersOpenFor = 5 * time.Minute

// recallOffers finds the offers that were open at the moment: those that end soon after it and were not made after it.
func (r *replay) recallOffers(ctx context.Context, since time.Time) error {
	until := r.when.Add(offersOpenFor)
	if since.Before(until) {
		until = since.Add(time.Minute)
	}
	first := map[string]*apiv1.Event{}
	events, _, err := client.All(ctx, apiv1.NewWatchServiceClient(r.s.config.Cluster).ListEvents, eventsMax, &apiv1.ListEventsRequest{Kinds: []string{"offer"}, Since: timestamppb.New(r.when.Add(time.Nanosecond)), Until: timestamppb.New(until)})
	for _, event := range events {
		first[event.GetName()] = event
	}
	for name, event := range first { // order: irrelevant because each is recalled by itself
		thing := [2]string{"offer", name}
		if event.GetWhat() == "made" {
			delete(r.things, thing)
		} else if r.things[thing] == nil {
			about := wire.EventAbout(event)
			offer := &apiv1.OfferView{Id: name, FrameworkId: about["framework"], AgentId: about["agent"], Role: about["role"]}
			offer.Hostname, offer.FrameworkName = r.namesOf(offer.GetAgentId(), offer.GetFrameworkId())
			r.things[thing] = &apiv1.Change{View: &apiv1.Change_Offer{Offer: offer}}
		}
	}
	return err
}

// settleRole: a role is set as was said last. Where nobody has said it, it is as if nobody had set it.
func (r *replay) settleRole(thing [2]string, before []*apiv1.Event) {
	role := &apiv1.RoleView{Role: thing[1]}
	if known := r.things[thing].GetRole(); known != nil {
		role = proto.CloneOf(known)
	}
	set := cmp.Or(lastSet(before, (*apiv1.Event).GetRole), &apiv1.RoleView{Weight: 1})
	role.Weight, role.Priority, role.Guarantee, role.Limit = set.GetWeight(), set.GetPriority(), set.GetGuarantee(), set.GetLimit()
	r.things[thing] = &apiv1.Change{View: &apiv1.Change_Role{Role: role}}
}

// settleMaster: one that was removed after the moment was there.
func (r *replay) settleMaster(thing [2]string, event *apiv1.Event) {
	if event.GetWhat() == "removed" && r.things[thing] == nil {
		r.things[thing] = &apiv1.Change{View: &apiv1.Change_Master{Master: &apiv1.MasterView{Id: thing[1], State: "follower"}}}
	}
}

// settleLeader: whoever has won the last election up to the moment led.
func (r *replay) settleLeader(ctx context.Context) {
	events, _, err := r.s.until(ctx, r.when, 1, &apiv1.ListEventsRequest{Kinds: []string{"election"}})
	if err != nil {
		return
	}
	leader, others := "", "not known"
	if len(events) > 0 {
		leader, others = strings.TrimPrefix(events[0].GetBy(), "leader "), "follower"
	}
	for thing, change := range r.things { // order: irrelevant because each is settled by itself
		if master := change.GetMaster(); master != nil {
			master = proto.CloneOf(master)
			if master.State, master.Since, master.Why = others, nil, ""; master.GetId() == leader {
				master.State, master.Since = "leader", events[0].GetAt()
			}
			r.things[thing] = &apiv1.Change{View: &apiv1.Change_Master{Master: master}}
		}
	}
}

// takeBackGrant takes back what has happened to a principal.
func (r *replay) takeBackGrant(ctx context.Context, event *apiv1.Event) {
	thing := [2]string{"principal", event.GetName()}
	principal := &apiv1.PrincipalView{Name: event.GetName()}
	if known := r.things[thing].GetPrincipal(); known != nil {
		principal = proto.CloneOf(known)
	}
	switch event.GetWhat() {
	case "granted":
		principal.Grants = slices.DeleteFunc(principal.Grants, func(g *apiv1.PrincipalGrant) bool { return proto.Equal(g, event.GetGrant()) })
		if r.things[thing] == nil && len(principal.GetGrants()) == 0 { // it came later
			return
		}
	case "taken":
		principal.Grants = append(principal.Grants, event.GetGrant())
	case "revoked":
		if r.known == nil {
			r.known, _, _ = client.All(ctx, r.s.operator.ListPrincipals, endedMax, &apiv1.ListRequest{All: true})
		}
		if i := slices.IndexFunc(r.known, func(one *apiv1.PrincipalView) bool { return one.GetName() == event.GetName() }); i >= 0 {
			principal = proto.CloneOf(r.known[i])
			principal.Revoked, principal.Why = nil, ""
		}
		if timeOf(principal.GetCreated()).After(r.when) {
			return
		}
	}
	r.things[thing] = &apiv1.Change{View: &apiv1.Change_Principal{Principal: principal}}
}

// meanUse returns what was really used on average in the hour of the moment, by the accounting; zero: it does not say.
func (r *replay) meanUse(ctx context.Context) (mean amounts) {
	list, err := r.s.operator.ListUsage(ctx, &apiv1.ListUsageRequest{Since: timestamppb.New(r.when), Until: timestamppb.New(r.when.Add(time.Second))})
	if err != nil {
		return mean // then nothing is said of it
	}
	for _, one := range list.GetItems() {
		begin, end := periodOf(one, r.s.config.Clock())
		mean.add(meanOf(one.GetUsed(), begin, end), 1)
	}
	return mean
}
