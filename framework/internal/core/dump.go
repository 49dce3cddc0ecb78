package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// Dump shows people the whole state, room by room. Two cores that show alike go on alike.
func (c *Core) Dump() string {
	d := &dump{}
	d.line("framework %+v", c.self.framework)
	d.line("  instance=%s cluster=%s term=%s", c.self.instance, c.self.cluster, c.self.term)
	d.line("ending %+v", c.ending)
	d.line("session %s at %q begun=%d calls=%d", c.session.phase, c.session.address, c.session.begun, c.session.calls)
	d.line("  heard %s beat %s active %s ask %s heartbeat=%s timeout=%s", moment(c.session.heardAt), moment(c.session.beatAt),
		moment(c.session.activeAt), moment(c.session.askAt), c.session.heartbeat, c.session.timeout)
	d.search(c)
	d.tasks(&c.tasks)
	d.offers(c)
	d.demands(&c.demands)
	for _, id := range slices.Sorted(maps.Keys(c.operations.awaited)) {
		one := c.operations.awaited[id]
		d.line("operation %s agent=%s accept=%d", id, one.agent, one.accept)
	}
	d.line("operations all=%t", c.operations.askAll)
	d.line("updates %d", c.updates.changes)
	for _, one := range c.updates.queue {
		d.line("  %+v", one)
	}
	d.calls(&c.calls)
	return d.String()
}

// dump gathers lines.
type dump struct{ strings.Builder }

func (d *dump) line(format string, values ...any) { fmt.Fprintf(d, format+"\n", values...) }

// moment shows a time of day, which is all that differs within a transcript.
func moment(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.Format("2T15:04:05.000000000")
}

func (d *dump) search(c *Core) {
	s, a := &c.search, &c.absence
	d.line("search masters=%v learned=%v leader=%s queue=%v redirects=%d rounds=%d", s.configured, s.learned, s.leader, s.queue, s.redirects, s.rounds)
	d.line("  next %s at %s dialing=%t", s.next, moment(s.dialAt), s.dialing)
	d.line("absence began %s greeted=%t away %s warn %s trouble=%v", moment(a.began), a.greeted, moment(a.awayFrom), moment(a.warnAt), a.trouble)
}

func (d *dump) tasks(t *tasks) {
	d.line("tasks held=%d records=%d waiting=%v retries=%v", t.held, t.records, t.waiting, t.retries)
	for _, id := range slices.Sorted(maps.Keys(t.open)) {
		d.task("  task", t.open[id])
	}
	for _, record := range slices.Sorted(maps.Keys(t.strays)) {
		d.task("  stray", t.strays[record])
	}
	for _, id := range slices.Sorted(maps.Keys(t.endings.states)) {
		d.line("  ended %s %s", id, t.endings.states[id])
	}
	d.line("  endings %v next=%d", t.endings.ring, t.endings.next)
}

func (d *dump) task(word string, t *task) {
	d.line("%s %s record=%d agent=%s origin=%d number=%d seen=%d %s latest=%s delivery=%d failures=%d accept=%d asked=%t gap=%t questioned=%t kill=%+v",
		word, t.id, t.record, t.agent, t.origin, t.number, t.seen, t.state, t.latest, t.delivery, t.failures, t.accept, t.asked, t.gap, t.questioned, t.killing)
	for _, status := range t.held {
		d.line("    held %+v", status)
	}
}

func (d *dump) offers(c *Core) {
	d.line("offers due %s fresh=%v", moment(c.offers.due), idsOf(c.offers.fresh))
	for _, id := range slices.Sorted(maps.Keys(c.offers.open)) {
		one := c.offers.open[id]
		d.line("  offer %s agent=%s role=%s kept=%t return %s", id, one.agent, one.role, one.kept, moment(one.returnAt))
	}
	for _, call := range slices.Sorted(maps.Keys(c.accepts.sent)) {
		d.line("  accept %d %+v", call, c.accepts.sent[call])
	}
	d.line("  accepts %v", c.accepts.order)
}

func idsOf(offers []api.Offer) []api.OfferID {
	ids := make([]api.OfferID, len(offers))
	for i := range offers {
		ids[i] = offers[i].ID
	}
	return ids
}

func (d *dump) demands(m *demands) {
	d.line("demands roles=%v suppressed=%v statements=%d untold=%t stated=%v", m.roles, slices.Sorted(maps.Keys(m.suppressed)), m.statements, m.untold, m.stated)
	for _, role := range slices.Sorted(maps.Keys(m.wanted)) {
		d.line("  wanted %s %+v", role, m.wanted[role])
	}
}

func (d *dump) calls(m *calls) {
	d.line("calls offering=%t handed=%d answered=%d slow=%+v", m.offering, m.handedOffers, m.answeredOffers, m.slow)
	for _, callback := range m.handed {
		d.line("  handed %s %+v", callback.Name(), callback)
	}
	for _, callback := range m.todo {
		d.line("  todo %s %+v", callback.Name(), callback)
	}
}
