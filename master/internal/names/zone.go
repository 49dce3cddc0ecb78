package names

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// directory holds which frameworks and agents there are, which all masters know. It is never changed.
type directory struct {
	index      uint64
	frameworks map[string][]api.FrameworkID // by the labels of their names and of their IDs
	agents     map[string]netip.Addr        // the IP addresses of the agents that are reached at one, by the labels of their IDs
}

// newDirectory reads the state of the registry, which must not change meanwhile.
func newDirectory(state *registry.State) *directory {
	d := &directory{index: state.Index, frameworks: map[string][]api.FrameworkID{}, agents: map[string]netip.Addr{}}
	for id, known := range state.Frameworks { // order: irrelevant because each list is sorted
		if !known.Removed.IsZero() {
			continue
		}
		for _, label := range []string{Label(known.Framework.Name), Label(string(id))} {
			if ids := d.frameworks[label]; !slices.Contains(ids, id) {
				d.frameworks[label] = append(ids, id)
			}
		}
	}
	for _, ids := range d.frameworks { // order: irrelevant because each is sorted by itself
		slices.Sort(ids)
	}
	for id, known := range state.Agents { // order: irrelevant because it fills a map
		if address, err := netip.ParseAddrPort(known.Agent.Address); err == nil {
			d.agents[Label(string(id))] = address.Addr().Unmap()
		}
	}
	return d
}

// endpoint is a port of a task that is ready.
type endpoint struct {
	agent   string     // the label of its agent
	host    string     // the host at which the agent says that it is reached
	address netip.Addr // the same, if it is an IP address
	number  uint16
}

// zone holds the endpoints of the frameworks of one label. It is not changed any more once it was read.
type zone struct {
	read  time.Time
	of    []api.FrameworkID
	all   []endpoint
	names map[wanted][]int // names of running tasks with ports, each with the indices in all of its ready endpoints
	full  bool             // there are more than endpointsMax
	// notYet is why the leader did not know all tasks when the zone was read; nil: it did. (R75)
	notYet *api.Error
}

// freshFor returns how old the zone may be before it is read again.
func (z *zone) freshFor() time.Duration {
	if z.notYet != nil {
		return retryAfter
	}
	return zoneAgeMax
}

// wanted is what is asked for in a zone, by labels. An empty port stands for all ports, and an empty name for all
// tasks.
type wanted struct{ name, port string }

func newZone(of []api.FrameworkID, read time.Time) *zone {
	return &zone{read: read, of: of, names: map[wanted][]int{{}: nil}}
}

// add adds a running task, as long as there is room.
func (z *zone) add(task *apiv1.TaskView) {
	if len(task.GetPorts()) == 0 {
		return
	}
	labels := labelsOf(task.GetId(), task.GetName())
	for port := range task.GetPorts() { // order: irrelevant because each is added for itself
		z.note(labels, labelOf(port, portBytesMax)) // the name exists, whether the task is ready or not
	}
	for _, one := range wire.ReadyEndpoints(task) {
		if len(z.all) == endpointsMax {
			z.full = true
			return
		}
		z.note(labels, labelOf(one.Port, portBytesMax), len(z.all))
		address, _ := netip.ParseAddr(one.Host) // if it is no address it is a name
		z.all = append(z.all, endpoint{
			agent: Label(task.GetAgentId()), host: strings.TrimSuffix(one.Host, "."), address: address.Unmap(), number: one.Number,
		})
	}
}

// note adds the names of a task with these labels and a port. ready is the index of the endpoint in all, if it is
// ready.
func (z *zone) note(labels []string, port string, ready ...int) {
	for _, name := range append([]string{""}, labels...) {
		for _, key := range []wanted{{name, ""}, {name, port}} {
			z.names[key] = append(z.names[key], ready...)
		}
	}
}
