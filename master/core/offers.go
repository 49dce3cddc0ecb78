package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/principals"
	"github.com/tenderhq/tender/master/core/quota"
	"github.com/tenderhq/tender/master/view"
)

// offers keeps the open offers. It makes them from the policy's proposals (R25), ends them, and returns to the policy
// what nobody has used. An accept first closes its offers here. It also enforces limits of roles where the policy alone
// can't: when a limit is lowered, and for accepts that had to wait for the registry.
type offers struct {
	*base
	open     map[api.OfferID]*offer
	expiring []*offer // in order of their deadlines; offers that are no longer open are skipped
	freed    freed    // what became free since the policy was last asked
	minted   uint64   // how many offers and inverse offers were made in this term
}

// offersPerEvent bounds the offers in one message, so that it stays far below its size limit (R4).
const offersPerEvent = 100

// offer holds resources of one agent for a framework until it is answered, is rescinded or expires.
type offer struct {
	id        api.OfferID
	number    uint64
	framework *framework
	agent     *agent
	role      api.Role
	resources api.Resources
	made      time.Time
	expires   time.Time
	open      bool

	// For an answer that comes in several calls: the number of the last call, and what the calls have done so far.
	part uint64
	did  view.Decision
}

func (o *offer) claim() allocator.Claim {
	return allocator.Claim{Framework: o.framework.id, Role: o.role, Agent: o.agent.id, Resources: o.resources}
}

// makeOffers checks the policy's proposals (R25) and sends them as offers.
func (r *offers) makeOffers(claims []allocator.Claim) {
	made := make(map[api.FrameworkID][]api.Offer)
	var order []*framework
	for _, claim := range claims {
		if r.isFull(claim.Framework) { // its principal is told once, elsewhere
			r.policy.Return(claim)
			continue
		}
		o, err := r.makeOffer(claim)
		if err != nil {
			r.info("proposal dropped", field("framework", claim.Framework), field("agent", claim.Agent), field("why", err.Error()))
			r.policy.Return(claim)
			continue
		}
		if len(made[o.framework.id]) == 0 {
			order = append(order, o.framework)
		}
		made[o.framework.id] = append(made[o.framework.id], r.shownOffer(o))
	}
	for _, fw := range order {
		for page := range slices.Chunk(made[fw.id], offersPerEvent) {
			r.tell(fw, protocol.Offers{Offers: page})
		}
	}
}

// makeOffer opens one offer, or says why the proposal is wrong.
func (r *offers) makeOffer(claim allocator.Claim) (*offer, error) {
	fw, a := r.frameworkByID[claim.Framework], r.agentByID[claim.Agent]
	switch {
	case fw == nil || fw.session == nil:
		return nil, fmt.Errorf("the framework is not subscribed")
	case !slices.Contains(fw.info.Roles, claim.Role):
		return nil, fmt.Errorf("the framework is not in role %q", claim.Role)
	case a == nil || a.withheld != "":
		return nil, fmt.Errorf("the agent may not be offered")
	case claim.Resources.IsZero():
		return nil, fmt.Errorf("it holds nothing")
	case !fw.info.Revocable && claim.Resources.HasRevocable():
		return nil, fmt.Errorf("the framework takes no revocable resources")
	case !claim.Resources.UsableBy(claim.Role).Equal(claim.Resources):
		return nil, fmt.Errorf("%v is reserved for others than role %q", claim.Resources, claim.Role)
	case !a.Offer(claim.Resources):
		return nil, fmt.Errorf("%v is not free of %v", claim.Resources, a.Free())
	}
	r.minted++
	o := &offer{
		id:        r.term.MintOffer(r.minted),
		number:    r.minted,
		framework: fw,
		agent:     a,
		role:      claim.Role,
		resources: claim.Resources,
		made:      r.now,
		expires:   r.now.Add(r.config.OfferTimeout),
	}
	r.openOffer(o)
	r.noteOffer(o, change.Made)
	r.expiring = append(r.expiring, o)
	if r.config.Debug {
		r.debug("offer made", field("offer", o.id), field("framework", fw.id), field("agent", a.id), field("resources", o.resources.String()))
	}
	return o, nil
}

// openOffer records an open offer. Its resources are booked as offered on its agent already.
func (r *offers) openOffer(o *offer) {
	o.open = true
	r.open[o.id], o.framework.offers[o.id], o.agent.offers[o.id] = o, o, o
	o.framework.book(o.role).offered.Add(o.resources)
	o.framework.share.Add(view.Tally{Offers: 1})
	r.crowd(o.framework.share)
}

// crowd notes a principal that has reached its limit of offers or filters.
func (r *offers) crowd(share *principals.Share) {
	if share.RoomForOffer() != nil || share.RoomForFilter(r.filtersOf(share.Principal())) != nil {
		r.shares.Crowd(share)
	}
}

// isFull reports whether the framework's principal has reached its limit of open offers.
func (r *offers) isFull(id api.FrameworkID) bool {
	fw := r.frameworkByID[id]
	return fw != nil && fw.share.RoomForOffer() != nil
}

// filtersOf returns how many filters a principal's frameworks have, as the policy counts them; 0 if it does not count.
func (b *base) filtersOf(principal string) int {
	if policy, counts := b.policy.(allocator.FilterCounter); counts {
		return policy.Filters(principal)
	}
	return 0
}

// holdings returns what each principal has, to be shown to people.
func (b *base) holdings() map[string]view.Tally {
	all := b.shares.All()
	for principal, has := range all { // order: irrelevant because each is changed by itself
		has.Filters = b.filtersOf(principal)
		all[principal] = has
	}
	return all
}

// shownOffer returns the offer as the scheduler sees it.
func (r *offers) shownOffer(o *offer) api.Offer {
	var executors []api.ExecutorID
	if len(o.framework.executors) > 0 {
		for _, x := range sortedExecutors(o.agent) {
			if x.framework == o.framework {
				executors = append(executors, x.ref.Executor)
			}
		}
	}
	return api.Offer{
		ID:         o.id,
		Framework:  o.framework.id,
		Agent:      o.agent.id,
		Role:       o.role,
		Resources:  o.resources,
		Hostname:   o.agent.info.Hostname,
		Attributes: o.agent.info.Attributes,
		Region:     o.agent.info.Region,
		Zone:       o.agent.info.Zone,
		Executors:  executors,
		Timeout:    r.config.OfferTimeout,

		Unavailable: o.agent.unavailable(),
	}
}

// closeOffer ends an offer. In the policy's books the framework still holds its resources, so the caller must give them
// back or turn them into tasks.
func (r *offers) closeOffer(o *offer) {
	o.open = false
	r.noteOffer(o, change.Figures)
	delete(r.open, o.id)
	delete(o.framework.offers, o.id)
	delete(o.agent.offers, o.id)
	o.framework.share.Take(view.Tally{Offers: 1})
	o.framework.book(o.role).offered.Sub(o.resources)
	o.agent.Unoffer(o.agent.id, o.resources)
}

// rescind ends an offer and gives its resources back. The caller tells the framework.
func (r *offers) rescind(o *offer, why string) {
	r.closeOffer(o)
	r.giveBack(o.claim())
	r.ended(o, view.Rescinded, why, 0)
	if r.config.Debug {
		r.debug("offer rescinded", field("offer", o.id), field("framework", o.framework.id), field("why", why))
	}
}

// rescindAll rescinds offers, and tells each framework that holds any of them once.
func (r *offers) rescindAll(offers map[api.OfferID]*offer, why string) {
	if len(offers) == 0 {
		return
	}
	named := make(map[api.FrameworkID][]api.OfferID)
	for _, o := range sortedOffers(offers) {
		r.rescind(o, why)
		named[o.framework.id] = append(named[o.framework.id], o.id)
	}
	for _, id := range sortedKeys(named) {
		r.tell(r.frameworkByID[id], protocol.Rescind{Offers: named[id], Why: why})
	}
}

// rescindIf rescinds those of the offers for which out returns true.
func (r *offers) rescindIf(offers map[api.OfferID]*offer, why string, out func(*offer) bool) {
	some := make(map[api.OfferID]*offer)
	for id, o := range offers { // order: irrelevant because it fills a map
		if out(o) {
			some[id] = o
		}
	}
	r.rescindAll(some, why)
}

func sortedOffers(offers map[api.OfferID]*offer) []*offer {
	return slices.SortedFunc(maps.Values(offers), func(a, b *offer) int { return cmp.Compare(a.number, b.number) })
}

// decline gives offers back with the filter. An offer that is gone is not an error. If the principal has no room for
// another filter, the call is refused and its offers stay open; otherwise the same resources would be offered again at
// once.
func (r *offers) decline(s *session, number uint64, call protocol.Decline) {
	share := s.framework.share
	if err := share.RoomForFilter(r.filtersOf(share.Principal())); err != nil && call.Filter.For() > 0 {
		r.refuse(s, number, api.E("offer.decline", api.Limit, s.framework.id, err).RetryIn(principals.FiltersRetry))
		return
	}
	for _, id := range call.Offers {
		if o := r.open[id]; o != nil && o.framework == s.framework {
			r.closeOffer(o)
			r.refused(o.claim(), call.Filter)
			r.ended(o, view.Declined, "", call.Filter.For())
			if r.config.Debug {
				r.debug("offer declined", field("offer", id), field("framework", o.framework.id))
			}
		}
	}
}

// refused gives back what an answer has left, and tells the policy the filter.
func (r *offers) refused(claim allocator.Claim, filter api.Filter) {
	r.giveBack(claim)
	r.filter(claim, filter)
}

func (r *offers) filter(claim allocator.Claim, filter api.Filter) {
	var until time.Time
	if refuse := filter.For(); refuse > 0 {
		until = r.now.Add(refuse)
	}
	r.policy.Refuse(claim, until)
	r.crowd(r.frameworkByID[claim.Framework].share)
}

// expireOffers ends the offers that were held for too long, as if they had been declined.
func (r *offers) expireOffers() {
	for len(r.expiring) > 0 && (!r.expiring[0].open || !r.expiring[0].expires.After(r.now)) {
		o := r.expiring[0]
		r.expiring[0] = nil
		r.expiring = r.expiring[1:]
		if !o.open {
			continue
		}
		r.closeOffer(o)
		r.refused(o.claim(), api.Filter{})
		r.ended(o, view.Expired, "", api.DefaultRefuse)
		r.info("offer rescinded", field("offer", o.id), field("framework", o.framework.id), field("why", "expired"))
		r.tell(o.framework, protocol.Rescind{Offers: []api.OfferID{o.id}, Why: "expired"})
	}
}

// nextExpiry returns when the oldest open offer expires; zero when no offer is open.
func (r *offers) nextExpiry() time.Time {
	for len(r.expiring) > 0 && !r.expiring[0].open {
		r.expiring[0] = nil
		r.expiring = r.expiring[1:]
	}
	if len(r.expiring) == 0 {
		return time.Time{}
	}
	return r.expiring[0].expires
}

// delayedPolicy is a policy that answers some time after it was asked, such as one in another process.
type delayedPolicy interface {
	// Behind reports whether the policy was told something to which it has not reacted yet.
	Behind() bool
}

// giveBack returns resources to the policy, and remembers since when the agent waits for its next offer.
func (r *offers) giveBack(claim allocator.Claim) {
	if _, waits := r.freed[claim.Agent]; !waits {
		r.freed[claim.Agent] = r.came
	}
	r.policy.Return(claim)
}

// served tells the shell since when resources that are offered now were free. Resources that the policy knows of and
// does not offer are wanted by nobody, so they are not waited for.
func (r *offers) served(claims []allocator.Claim) {
	if len(r.freed) == 0 {
		return
	}
	var since []time.Time
	for _, claim := range claims {
		if at, waits := r.freed[claim.Agent]; waits {
			since = append(since, at)
			delete(r.freed, claim.Agent)
		}
	}
	if policy, is := r.policy.(delayedPolicy); !is || !policy.Behind() {
		clear(r.freed)
	}
	if len(since) > 0 {
		r.emit(Served{Since: since})
	}
}

// forgetFreed forgets what became free on an agent that is no more.
func (r *offers) forgetFreed(id api.AgentID) { delete(r.freed, id) }

// mintInverse returns the ID of a new inverse offer. They are counted with the offers.
func (r *offers) mintInverse() api.OfferID {
	r.minted++
	return r.term.MintInverse(r.minted)
}

// freed says for each agent since when some of its resources wait for their next offer.
type freed map[api.AgentID]time.Time

// ended records the end of an offer that no accept has used in the framework's decisions.
func (r *offers) ended(o *offer, how view.Outcome, why string, filter time.Duration) {
	r.decided(o.framework, view.Decision{
		At: r.now, Made: o.made, Offer: o.id, Agent: o.agent.id, Role: o.role, Resources: o.resources,
		Outcome: how, Why: why, Offers: 1, Launched: o.did.Launched, Refused: o.did.Refused, Filter: filter,
	})
}

// decided records a decision about a framework.
func (b *base) decided(fw *framework, decision view.Decision) {
	fw.decisions.Add(decision)
	b.note(change.Record{
		Kind: change.Offer, What: change.What(decision.Outcome), Name: string(decision.Offer), Agent: decision.Agent, Framework: fw.id,
		Role: decision.Role, Decision: &decision,
	})
}

// takeBackKept rescinds the kept offers that the policy asks back for other frameworks. It reports whether there were
// any. (Protocol rule R42.)
func (r *offers) takeBackKept(wanted []allocator.Inverse) bool {
	before := len(r.open)
	for _, want := range wanted {
		for _, claim := range want.Victims {
			if claim.Task == "" {
				r.takeBackFrom(claim, want.For)
			}
		}
	}
	return len(r.open) < before
}

// takeBackFrom rescinds the offers of the agent that the framework keeps in the role. An offer younger than
// allocator.OfferStands stays, whatever the policy says.
func (r *offers) takeBackFrom(claim allocator.Claim, whom api.FrameworkID) {
	a := r.agentByID[claim.Agent]
	if a == nil || r.frameworkByID[claim.Framework] == nil {
		return
	}
	kept := make(map[api.OfferID]*offer)
	longest := time.Duration(0)
	for id, o := range a.offers { // order: irrelevant because it goes into a map
		if held := r.now.Sub(o.made); o.framework.id == claim.Framework && o.role == claim.Role && held >= allocator.OfferStands {
			kept[id] = o
			longest = max(longest, held)
		}
	}
	r.rescindAll(kept, fmt.Sprintf("kept unanswered for %s, it was asked back for %s", words.Span(longest), whom))
}

// holdLimit rescinds offers, the youngest first, until the role is within a limit that was just lowered, or no offer is
// left to rescind. So no accept takes the role further above the limit. Tasks that are above the limit continue.
// (Protocol rule R29.)
func (r *offers) holdLimit(role api.Role) {
	limit := r.registry.Roles[role].Limit
	if limit.IsZero() || len(r.open) == 0 {
		return
	}
	over := r.aboveLimit(role, api.Resources{})
	out := make(map[api.OfferID]*offer)
	for _, o := range slices.Backward(sortedOffers(r.open)) {
		if len(over) == 0 {
			break
		}
		if !o.role.Within(role) || !holdsOf(o.resources, over, role) {
			continue
		}
		out[o.id] = o
		for _, item := range quota.Counting(o.resources, role) {
			if over[item.Name] -= quota.Amount(item); over[item.Name] <= 0 {
				delete(over, item.Name)
			}
		}
	}
	r.rescindAll(out, fmt.Sprintf("the limit of role %s is %v now", role, limit))
}

// limitAbove names the limit, of the role or of a role above it, that would be exceeded by what is used and offered
// together with these resources; "" when there is none.
func (r *offers) limitAbove(role api.Role, more api.Resources) string {
	why := ""
	for up := role; up != ""; up = up.Parent() {
		if limit := r.registry.Roles[up].Limit; why == "" && !limit.IsZero() && len(r.aboveLimit(up, more)) > 0 {
			why = fmt.Sprintf("the limit of role %s is %v now", up, limit)
		}
	}
	return why
}

// aboveLimit returns, by kind, how far the role is above its limit: what it and the roles below it use, are offered and
// have reserved, plus these resources. It is empty when the role is within its limit.
func (r *offers) aboveLimit(role api.Role, more api.Resources) map[string]api.Milli {
	sums := make(map[string]api.Milli)
	count := func(resources api.Resources) {
		for _, item := range quota.Counting(resources, role) {
			sums[item.Name] += quota.Amount(item)
		}
	}
	count(more)
	for _, fw := range r.frameworkByID { // order: irrelevant because it sums
		for _, t := range fw.tasks { // order: irrelevant because it sums
			if t.held && t.role.Within(role) {
				count(t.resources)
			}
		}
		for _, x := range fw.executors { // order: irrelevant because it sums
			if x.role.Within(role) {
				count(x.resources)
			}
		}
	}
	for _, o := range r.open { // order: irrelevant because it sums
		if o.role.Within(role) {
			count(o.resources)
		}
	}
	for _, a := range r.agentByID { // order: irrelevant because it sums
		for _, item := range a.Total.Items() {
			if item.Reserved != "" && item.Reserved.Within(role) {
				sums[item.Name] += quota.Amount(item)
			}
		}
	}
	over := make(map[string]api.Milli)
	for _, item := range r.registry.Roles[role].Limit.Items() {
		if n := sums[item.Name] - quota.Amount(item); n > 0 {
			over[item.Name] = n
		}
	}
	return over
}

func holdsOf(resources api.Resources, kinds map[string]api.Milli, role api.Role) bool {
	return slices.ContainsFunc(quota.Counting(resources, role), func(item api.Resource) bool { return kinds[item.Name] > 0 })
}

// recoverRoles tells the policy what operators have set for roles.
func (r *offers) recoverRoles() {
	for _, role := range sortedKeys(r.registry.Roles) {
		r.roleChanged(role)
	}
}

// roleChanged follows a change of a role in the registry.
func (r *offers) roleChanged(role api.Role) {
	set := r.registry.Roles[role]
	r.note(change.Record{Kind: change.Role, What: change.Set, Role: role, Set: set, Why: set.Describe()})
	r.policy.SetRole(allocator.Role{Role: role, Weight: set.Weight, Priority: set.Priority, Guarantee: set.Guarantee, Limit: set.Limit})
	r.holdLimit(role)
}
