package view

import (
	"strings"

	"github.com/tenderhq/tender/api"
)

// Executor is an executor as people see it.
type Executor struct {
	ExecutorBrief
	FrameworkName string
	Resources     api.Resources // its own, without those of its tasks
	Tasks         int
	Usage         api.Usage // with its tasks; the zero value: not known
	Launching     bool      // its agent has not reported it yet
}

// ExecutorBrief has the fields by which executors are selected.
type ExecutorBrief struct {
	Ref      api.ExecutorRef
	Agent    api.AgentID
	Hostname string
	Role     api.Role
}

// ExecutorList notes the executors. Only the leader knows any.
func ExecutorList(c Cluster, query Query) Listing[Executor] {
	list := &listing[ExecutorBrief, Executor]{name: ExecutorBrief.name}
	list.reader = func(c Cluster, query *Query) func(ExecutorBrief) (Executor, bool) {
		return func(x ExecutorBrief) (Executor, bool) {
			if !c.selects(query, x.name(), x.Agent, x.Ref.Framework, x.Role) {
				return Executor{}, false
			}
			return c.Leader.Executor(x)
		}
	}
	if c.Leader != nil {
		for x := range c.Leader.Executors(query.Agent) {
			list.note(x)
		}
	}
	return list
}

func (x ExecutorBrief) name() string {
	return strings.Join([]string{string(x.Ref.Framework), string(x.Ref.Executor), string(x.Agent)}, "/")
}

// selects reports whether the query selects what a framework has in a role on an agent, and the caller may see it.
func (c Cluster) selects(query *Query, name string, agent api.AgentID, framework api.FrameworkID, role api.Role) bool {
	return (query.Agent == "" || query.Agent == agent) && (query.Framework == "" || query.Framework == framework) &&
		(query.Role == "" || query.Role == role) && strings.HasPrefix(name, query.Prefix) &&
		(c.Sees.Everything || c.Sees.Covers(c.on(agent, c.object(framework, role))))
}
