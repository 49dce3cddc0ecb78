package core_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// crowd is a world with a framework that is offered so many agents.
func crowd(agents int) (*world, *fakeFramework, *heard) {
	w := newWorld(policyNamed("fairshare"), core.Config{})
	h := listen(w)
	w.lead()
	for i := range agents {
		agent := transcript.Parse(fmt.Sprintf("agent a%d cpus=1 mem=1024", i))
		w.newAgent(agent)
	}
	framework := transcript.Parse("framework f1 role=web failover=1h")
	w.newFramework(framework)
	return w, w.frameworks["f1"], h
}

// onTheirWay counts the changes of a kind that the quorum has not answered.
func onTheirWay[C registry.Change](w *world) int {
	count := 0
	for _, command := range w.proposed {
		if _, is := command.Change.(C); is {
			count++
		}
	}
	return count
}

// TestChangesOfASessionAreBounded: while the quorum is slow a session may have only a few changes of its framework
// under way. Further ones are refused, and it can continue when there are answers.
func TestChangesOfASessionAreBounded(t *testing.T) {
	w, f, h := crowd(0)
	w.stopped = true
	for range 10 {
		var calls []protocol.SchedulerCall
		for range 100 {
			calls = append(calls, protocol.UpdateFramework{Framework: f.info})
		}
		w.call(f, calls...)
	}
	under := onTheirWay[registry.UpdateFramework](w)
	if refused := h.refused[api.Limit.String()]; under == 0 || under > 16 || refused != 1000-under {
		t.Errorf("of 1000 updates %d are under way and %d refused", under, refused)
	}
	w.stopped = false
	w.settle()
	w.call(f, protocol.UpdateFramework{Framework: f.info})
	if refused := h.refused[api.Limit.String()]; refused != 1000-under {
		t.Errorf("%d are refused when the quorum answers", refused-1000+under)
	}
}

// TestOneSessionOfAFrameworkAsks: a scheduler that keeps opening streams while the quorum is slow has one change under
// way. When the quorum answers, the last stream gets the session.
func TestOneSessionOfAFrameworkAsks(t *testing.T) {
	w, f, _ := crowd(0)
	w.stopped = true
	for range 1000 {
		conn := f.conn
		f.hangUp()
		w.step(core.SchedulerClosed{Conn: conn})
		w.subscribe(f)
	}
	if under := onTheirWay[registry.Subscribe](w); under != 1 {
		t.Errorf("%d subscriptions of one framework are under way", under)
	}
	w.stopped = false
	w.settle()
	if shown := view.PageOf(w.core.View(), view.FrameworkList, view.Query{}).Items[0]; shown.State != "active" || f.conn == 0 {
		t.Errorf("the framework is %s", shown.State)
	}
	if err := w.core.CheckBooks(); err != nil {
		t.Error(err)
	}
}

// TestSubscriptionsWaitForTheirTurn: of many frameworks as many ask at once as may, and all are
// admitted in the end; of one framework only a few wait.
func TestSubscriptionsWaitForTheirTurn(t *testing.T) {
	w, _, _ := crowd(0)
	w.stopped = true
	const many = 3000
	for i := range many {
		w.conns++
		w.step(core.SchedulerOpened{Conn: w.conns, By: rights.All(), Subscribe: protocol.Subscribe{
			Cluster: w.cluster(), Framework: api.Framework{Name: "x", Roles: []api.Role{"web"}}, Instance: api.Nonce(fmt.Sprint("n", i)),
		}})
	}
	if under := onTheirWay[registry.Subscribe](w); under > 1024 {
		t.Errorf("%d subscriptions are under way", under)
	}
	closed := 0
	w.onEffect = func(effect core.Effect) {
		if end, is := effect.(core.CloseScheduler); is && api.Is(end.Err, api.Limit) {
			closed++
		}
	}
	for range 30 {
		w.conns++
		w.step(core.SchedulerOpened{Conn: w.conns, By: rights.All(), Subscribe: protocol.Subscribe{
			Cluster: w.cluster(), Framework: api.Framework{ID: "framework-1", Name: "f1", Roles: []api.Role{"web"}}, Instance: "same",
		}})
	}
	if closed != 14 {
		t.Errorf("%d of 30 sessions of one framework are refused", closed)
	}
	w.stopped = false
	w.settle()
	if n := len(w.registry.Frameworks); n != many+1 {
		t.Errorf("%d frameworks are admitted", n-1)
	}
}

// TestAcceptsThatReserveWaitForTheirTurn: a session that reserves on many agents at once asks the
// registry about some at a time, and all are done; a quorum that refuses stops none behind it.
func TestAcceptsThatReserveWaitForTheirTurn(t *testing.T) {
	const agents = 300
	w, f, h := crowd(agents)
	w.stopped = true
	h.results = 0
	var most int
	for i, id := range slices.Sorted(maps.Keys(f.offers)) {
		w.call(f, protocol.Accept{Offers: []api.OfferID{id}, Filter: api.NoFilter, Operations: []api.Operation{
			{Kind: api.OpReserve, ID: api.OperationID(fmt.Sprint("op", i)), Resources: api.Scalars(0.5, 512)},
		}})
		most = max(most, onTheirWay[registry.SetReserved](w))
	}
	if most == 0 || most > 64 {
		t.Errorf("%d accepts of one session are under way", most)
	}
	first := w.proposed[0]
	w.proposed = w.proposed[1:]
	w.step(core.ProposalRefused{Client: first.Client, Counter: first.Counter, Err: api.E("raft.propose", api.Limit, "", errors.New("too large"))})
	w.stopped = false
	w.settle()
	if h.results != agents {
		t.Errorf("%d of %d operations are answered", h.results, agents)
	}
	reserved := 0
	for _, a := range w.registry.Agents { // order: irrelevant because it counts
		if a.Reserved.Filter(func(l api.Label) bool { return l.Reserved == "web" }).Scalar("cpus") > 0 {
			reserved++
		}
	}
	if reserved != agents-1 {
		t.Errorf("%d agents are reserved", reserved)
	}
	if err := w.core.CheckBooks(); err != nil {
		t.Error(err)
	}
}
