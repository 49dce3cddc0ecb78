package gateway_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

// TestRandomCalls makes random legal calls, and kills the gateway, the master and the agent between them. Mesos's
// promises are checked at each event; that nothing is launched twice, frameworktest checks by itself.
func TestRandomCalls(t *testing.T) {
	seeds := 40
	if os.Getenv("TENDER_TEST_LONG") != "" {
		seeds = 1000
	}
	kinds, played := make(map[schedulerv1.Event_Type]int), 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			played++
			machine := frameworktest.Machine{Resources: api.MustParseResources("cpus:4;mem:4096;disk:1000;ports:[31000-31009]")}
			executors := map[api.ExecutorID]frameworktest.ExecutorFunc{"own": runOwn}
			frameworktest.Run(t, frameworktest.Cluster{Machine: machine, Executors: executors}, func(h *frameworktest.Handle) {
				encoding := []codec.Encoding{codec.JSON, codec.Protobuf}[seed%2]
				s := &story{h: h, encoding: encoding, starts: make(chan func()), uuids: make(map[string]string), latest: make(map[string]*mesosv1.TaskStatus)}
				s.start()
				defer s.stop()
				p := newPlayer(s, seed, kinds)
				p.aware = seed%4 < 2
				if seed%3 == 0 {
					p.roles = []string{"a", "b"}
				}
				p.subscribe()
				for range 40 {
					p.step()
				}
				p.finish()
			})
		})
	}
	for name, kind := range schedulerv1.Event_Type_value {
		if is := schedulerv1.Event_Type(kind); played == seeds && kinds[is] == 0 && is != schedulerv1.Event_UNKNOWN && is != schedulerv1.Event_ERROR {
			t.Errorf("no framework has ever heard %s", name)
		}
	}
}

// player is a framework of Mesos that does anything legal, and believes in Mesos's promises.
type player struct {
	*story
	t      *testing.T
	chance *rand.Rand
	aware  bool
	roles  []string // several; nil: the default one
	did    []string // what it has done, for the report of a failure

	offers map[string]*mesosv1.Offer // open ones
	shown  map[string]bool           // all that it was ever shown
	tasks  map[string]*played
	// inverse are what is asked back of it, maintained says that its agent is to be maintained.
	inverse    map[string]bool
	crossing   map[string]bool // offers that it has answered since it heard last, which may have been rescinded before
	maintained bool
	changes    map[string]*changed
	kinds      map[schedulerv1.Event_Type]int // how often it has heard which events
	fresh      []*mesosv1.TaskStatus          // acknowledged since the cluster was last at rest: a kill may lose that
}

func newPlayer(s *story, seed uint64, kinds map[schedulerv1.Event_Type]int) *player {
	return &player{
		story: s, t: s.h.T(), chance: rand.New(rand.NewPCG(seed, 0)), kinds: kinds,
		offers: make(map[string]*mesosv1.Offer), shown: make(map[string]bool), tasks: make(map[string]*played),
		inverse: make(map[string]bool), crossing: make(map[string]bool), changes: make(map[string]*changed),
	}
}

// played is a task of the player.
type played struct {
	open  *mesosv1.TaskStatus // told and not acknowledged; nil: none
	acked map[string]bool     // by uuid
	over  bool                // its end was told
	ended bool                // its end is acknowledged, and that is not lost
	told  bool                // anything
	asked bool                // a reconciliation is to be answered
}

func (p *player) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf(format+"\nafter:\n%s", append(args, strings.Join(p.did, "\n"))...)
	p.t.FailNow()
}

func (p *player) note(format string, args ...any) {
	p.did = append(p.did, fmt.Sprintf("%v ", p.h.Now().Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// call posts a call, and has its answer be one that the API knows.
func (p *player) call(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	answer := strings.TrimSpace(p.post(text))
	p.note("%s: %s", text, answer)
	if !slices.Contains([]string{"200", "202"}, answer[:3]) && !strings.HasPrefix(answer, "503") {
		p.fail("answered %s", answer)
	}
	return answer
}

func (p *player) subscribe() {
	was := p.framework
	id := ""
	if was != "" {
		id = fmt.Sprintf(`"id":{"value":%q},`, was)
	}
	var can []string
	roles := ""
	if p.aware {
		can = append(can, `{"type":"PARTITION_AWARE"},{"type":"TASK_KILLING_STATE"}`)
	}
	if p.roles != nil {
		can = append(can, `{"type":"MULTI_ROLE"}`)
		roles = `,"roles":["` + strings.Join(p.roles, `","`) + `"]`
	}
	framework := ""
	if was != "" {
		framework = fmt.Sprintf(`"framework_id":{"value":%q},`, was)
	}
	for p.call(`{"type":"SUBSCRIBE",%s"subscribe":{"framework_info":{%s"user":"ann","name":"old","failover_timeout":6000,"capabilities":[%s]%s}}}`, framework, id, strings.Join(can, ","), roles) != "200" {
		p.h.Advance(time.Second)
	}
	p.offers, p.inverse = make(map[string]*mesosv1.Offer), make(map[string]bool)
	for _, task := range p.tasks {
		task.open = nil
	}
	p.hear(0)
	if p.framework == "" || was != "" && p.framework != was {
		p.fail("the framework was %q and is %q now", was, p.framework)
	}
}

// hear lets time pass, and checks what is told meanwhile.
func (p *player) hear(pause time.Duration) {
	p.h.Advance(pause)
	p.mu.Lock()
	told := p.told
	p.told = nil
	p.mu.Unlock()
	for _, event := range told {
		p.kinds[event.GetType()]++
		switch event.GetType() {
		case schedulerv1.Event_SUBSCRIBED:
			p.framework = event.GetSubscribed().GetFrameworkId().GetValue()
		case schedulerv1.Event_OFFERS:
			for _, offer := range event.GetOffers().GetOffers() {
				id := offer.GetId().GetValue()
				if p.shown[id] {
					p.fail("%s is offered a second time", id)
				}
				p.shown[id], p.offers[id] = true, offer
			}
		case schedulerv1.Event_RESCIND:
			id := event.GetRescind().GetOfferId().GetValue()
			if p.offers[id] == nil && !p.crossing[id] {
				p.fail("%s is rescinded and was not open", id)
			}
			delete(p.offers, id)
		case schedulerv1.Event_UPDATE:
			p.heard(event.GetUpdate().GetStatus())
		case schedulerv1.Event_ERROR:
			p.fail("told the error %s", event.GetError().GetMessage())
		default:
			p.hearOther(event)
		}
	}
	clear(p.crossing)
}

// take takes an open offer to answer it.
func (p *player) take(id string) *mesosv1.Offer {
	offer := p.offers[id]
	delete(p.offers, id)
	p.crossing[id] = true
	return offer
}

func (p *player) heard(status *mesosv1.TaskStatus) {
	id, uuid := status.GetTaskId().GetValue(), string(status.GetUuid())
	p.note("%s %s %s %q %x", id, status.GetState(), status.GetReason(), status.GetMessage(), uuid)
	task := p.tasks[id]
	switch {
	case task == nil:
		p.fail("%s was never launched", id)
	case status.GetState() == mesosv1.TaskState_TASK_ERROR:
		p.fail("%s is refused: nothing is wrong with it", id)
	case uuid == "":
		task.told, task.asked = true, false
		if over(status.GetState()) && status.GetReason() != mesosv1.TaskStatus_REASON_RECONCILIATION && !task.ended {
			task.over = true
			task.ended = status.GetState() != mesosv1.TaskState_TASK_LOST || status.GetReason() != mesosv1.TaskStatus_REASON_AGENT_DISCONNECTED
		}
		return
	case task.acked[uuid]:
		p.fail("%s: a status comes again that was acknowledged", id)
	case task.open != nil && string(task.open.GetUuid()) != uuid:
		p.fail("%s: a status comes before the last one is acknowledged", id)
	case task.ended:
		p.fail("%s has ended, and is told %s", id, status.GetState())
	}
	task.told, task.asked, task.open = true, false, status
	task.over = task.over || over(status.GetState())
}

func over(state mesosv1.TaskState) bool {
	switch state {
	case mesosv1.TaskState_TASK_STAGING, mesosv1.TaskState_TASK_STARTING, mesosv1.TaskState_TASK_RUNNING, mesosv1.TaskState_TASK_KILLING,
		mesosv1.TaskState_TASK_UNREACHABLE, mesosv1.TaskState_TASK_UNKNOWN:
		return false
	}
	return true
}

// some returns one of the keys, by chance; "" if there are none.
func some[V any](p *player, of map[string]V) string {
	keys := slices.Sorted(maps.Keys(of))
	if len(keys) == 0 {
		return ""
	}
	return keys[p.chance.IntN(len(keys))]
}

// step does one thing.
func (p *player) step() {
	switch n := p.chance.IntN(26); {
	case n < 5:
		p.accept()
	case n < 9:
		p.acknowledgeOne()
	case n == 9:
		if id := some(p, p.offers); id != "" {
			p.take(id)
			p.call(`{"type":"DECLINE","decline":{"offer_ids":[{"value":%q}],"filters":{"refuse_seconds":%d}}}`, id, p.chance.IntN(4))
		}
	case n == 10:
		p.call(`{"type":"SUPPRESS","suppress":{"roles":[%s]}}`, p.someRole())
	case n == 11:
		p.call(`{"type":"REVIVE","revive":{"roles":[%s]}}`, p.someRole())
	case n == 12:
		if id := some(p, p.tasks); id != "" {
			p.call(`{"type":"KILL","kill":{"task_id":{"value":%q}}}`, id)
		}
	case n == 13:
		p.call(`{"type":"RECONCILE","reconcile":{"tasks":[]}}`)
	case n < 17:
		p.hear(time.Duration(p.chance.IntN(12000)) * time.Millisecond)
	case n < 20:
		p.breakSomething()
	case n < 23:
		p.change()
	case n == 23:
		p.talk()
	default:
		p.maintain()
	}
	if p.chance.IntN(3) > 0 {
		p.hear(time.Duration(p.chance.IntN(1000)) * time.Millisecond)
	}
}

// someRole returns one of its roles in quotes, or "", which means all.
func (p *player) someRole() string {
	if p.roles == nil || p.chance.IntN(2) == 0 {
		return ""
	}
	return fmt.Sprintf("%q", p.roles[p.chance.IntN(len(p.roles))])
}

func (p *player) accept() {
	large := maps.Clone(p.offers)
	maps.DeleteFunc(large, func(_ string, offer *mesosv1.Offer) bool { return cpusOf(offer) < 0.6 })
	id := some(p, large)
	if id == "" {
		return
	}
	offer := p.take(id)
	var infos []string
	own := p.chance.IntN(4) == 0
	for range 1 + p.chance.IntN(3) {
		task := fmt.Sprintf("t%d", len(p.tasks)+1)
		p.tasks[task] = &played{acked: make(map[string]bool)}
		runs := fmt.Sprintf(`"command":{"value":%q}`, []string{"true", "sleep infinity"}[p.chance.IntN(2)])
		if own {
			runs = `"executor":{"executor_id":{"value":"own"},"command":{"value":"./run"}}`
		}
		infos = append(infos, fmt.Sprintf(`{"name":"t","task_id":{"value":%q},"agent_id":{"value":%q},%s,`+
			`"resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":0.2}}]}`, task, offer.GetAgentId().GetValue(), runs))
	}
	launch := `"type":"LAUNCH","launch":{"task_infos":[%s]}`
	if !own && p.chance.IntN(4) == 0 {
		launch = `"type":"LAUNCH_GROUP","launch_group":{"executor":{"type":"DEFAULT","executor_id":{"value":"x"}},"task_group":{"tasks":[%s]}}`
	}
	p.call(`{"type":"ACCEPT","accept":{"offer_ids":[{"value":%q}],"filters":{"refuse_seconds":%d},"operations":[{`+launch+`}]}}`,
		id, p.chance.IntN(4), strings.Join(infos, ","))
}

func cpusOf(offer *mesosv1.Offer) (cpus float64) {
	for _, resource := range offer.GetResources() {
		if resource.GetName() == "cpus" {
			cpus += resource.GetScalar().GetValue()
		}
	}
	return cpus
}

// acknowledgeOne acknowledges a status, sometimes twice.
func (p *player) acknowledgeOne() {
	open := maps.Clone(p.tasks)
	maps.DeleteFunc(open, func(_ string, task *played) bool { return task.open == nil })
	if id := some(p, open); id != "" {
		p.ack(id)
	}
}

func (p *player) ack(id string) {
	task := p.tasks[id]
	status := task.open
	p.latest[id] = status
	for range 1 + p.chance.IntN(4)/3 {
		p.note("ack %s %s: %s", id, status.GetState(), strings.TrimSpace(p.acknowledge(id)))
	}
	task.open = nil
	task.acked[string(status.GetUuid())] = true
	task.ended = over(status.GetState())
	p.fresh = append(p.fresh, status)
}

// breakSomething kills a part of the cluster. What was acknowledged a moment before may be told again.
func (p *player) breakSomething() {
	if p.chance.IntN(2) == 0 {
		p.hear(5 * time.Second) // also a leader that has just been started has the acknowledgements then
		p.fresh = nil
	}
	for _, status := range p.fresh {
		task := p.tasks[status.GetTaskId().GetValue()]
		delete(task.acked, string(status.GetUuid()))
		task.ended = false
	}
	p.fresh = nil
	away := time.Duration(p.chance.IntN(5000)) * time.Millisecond
	switch p.chance.IntN(3) {
	case 0:
		p.note("kill the gateway")
		p.restart()
		p.h.Advance(away)
		p.subscribe()
	case 1:
		p.note("kill the master for %v", away)
		p.h.Masters()[0].Kill()
		p.hear(away)
		p.h.Masters()[0].Start()
	case 2:
		p.note("kill the agent for %v", away)
		p.h.Agent(1).Kill()
		p.hear(away)
		p.h.Agent(1).Start()
	}
}

// finish lets everything come to rest: each task that was accepted has been told of, each question is answered, and all
// end when they are killed.
func (p *player) finish() {
	settle := func() {
		for range 10 {
			p.hear(10 * time.Second)
			for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
				if p.tasks[id].open != nil {
					p.ack(id)
				}
			}
		}
	}
	settle()
	p.finishChanges(settle)
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		if !p.tasks[id].told {
			p.fail("nothing was told of %s", id)
		}
		p.tasks[id].asked = true
		ids = append(ids, fmt.Sprintf(`{"task_id":{"value":%q}}`, id))
	}
	if len(ids) == 0 {
		return
	}
	p.call(`{"type":"RECONCILE","reconcile":{"tasks":[%s]}}`, strings.Join(ids, ","))
	settle()
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		if p.tasks[id].asked {
			p.fail("the question about %s is not answered", id)
		}
		p.call(`{"type":"KILL","kill":{"task_id":{"value":%q}}}`, id)
	}
	settle()
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		if !p.tasks[id].over {
			p.fail("%s has not ended", id)
		}
	}
	p.call(`{"type":"TEARDOWN"}`)
}
