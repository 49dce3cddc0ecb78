package top

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// summary sums up the cluster in one line. It is kept up to date by what changes, because the sum over all agents would
// cost too much for each frame.
type summary struct {
	leader string
	agents map[string]part // what each agent adds
	sum    part
}

// part is what an agent adds to the summary. Amounts are in thousandths, so that sums are exact.
type part struct{ ill, cpus, cpusUsed, mem, memUsed int64 }

func (p *part) add(q part, sign int64) {
	p.ill += sign * q.ill
	p.cpus += sign * q.cpus
	p.cpusUsed += sign * q.cpusUsed
	p.mem += sign * q.mem
	p.memUsed += sign * q.memUsed
}

func (s *summary) clear() { *s = summary{agents: make(map[string]part)} }

// master notes how a master is.
func (s *summary) master(m *apiv1.MasterView) {
	if m.GetState() == "leader" {
		s.leader = m.GetId()
	}
}

// agent notes how an agent is; nil: it is no more.
func (s *summary) agent(name string, a *apiv1.AgentView) {
	s.sum.add(s.agents[name], -1)
	delete(s.agents, name)
	if a == nil {
		return
	}
	p := part{
		cpus: amountOf(a.GetTotal(), "cpus"), cpusUsed: amountOf(a.GetAllocated(), "cpus"),
		mem: amountOf(a.GetTotal(), "mem"), memUsed: amountOf(a.GetAllocated(), "mem"),
	}
	if a.GetState() != api.AgentRunning.String() {
		p = part{ill: 1}
	}
	s.agents[name] = p
	s.sum.add(p, 1)
}

// amountOf sums up a kind of resource, reserved or not, in thousandths.
func amountOf(resources *structpb.Struct, kind string) (sum int64) {
	for name, value := range resources.GetFields() { // order: irrelevant because it is a sum
		if bare, _, _ := strings.Cut(name, "("); bare == kind {
			sum += int64(math.Round(1000 * value.GetNumberValue()))
		}
	}
	return sum
}

// line returns the summary.
func (s *summary) line() string {
	milli := func(amount int64) string { return strconv.FormatFloat(float64(amount)/1000, 'f', -1, 64) }
	text := fmt.Sprintf("cpus %s of %s, mem %s of %s allocated", milli(s.sum.cpusUsed), milli(s.sum.cpus), milli(s.sum.memUsed), milli(s.sum.mem))
	if s.sum.ill > 0 {
		text = fmt.Sprintf("%d of %d agents not RUNNING, %s", s.sum.ill, len(s.agents), text)
	}
	if s.leader != "" {
		text = s.leader + " leads, " + text
	}
	return text
}
