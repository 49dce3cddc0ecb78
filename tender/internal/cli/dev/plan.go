package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	loopback = "127.0.0.1"
	// planFile is the file with the addresses of a folder's cluster: the masters of a quorum know each other by them.
	planFile = "dev-addresses.json"
)

// The default ports, which commands use when nobody names a master. One cluster on the machine has them, never a
// test's.
const (
	masterGRPC = 5060
	masterHTTP = 5050
	masterRaft = 5070
	agentHTTP  = 5051
)

// Free ports are looked for below the range that systems take for outgoing connections, so that none is lost between
// the look and its use. Those from portsEnd on are left to the tasks of the agents, and the last ones before it to claims.
const (
	portMin  = 20000
	portsEnd = 29000
	// They lie in spans. Whoever listens at the first port of a span has it, as with blocks: no other cluster looks for
	// ports there, so those of a member that is down, or has not begun to listen, stay its own.
	spanPorts = 100
	spans     = (claimMin - portMin) / spanPorts
)

// plan names the parts and their addresses: those that the folder was used with, else the default ports if they are
// wanted and free, else any free ones in spans that are claimed. The agents have the blocks of ports that were claimed.
// Those of HTTP are wanted by a gateway for Mesos as well, and are left to it.
func plan(dir string, masters, agents int, defaults, gateway bool) (cluster Cluster, claimed claims, err error) {
	cluster.Dir = dir
	err = readJSON(filepath.Join(dir, planFile), &cluster)
	cluster.PID = os.Getpid()
	look := newLook(cluster)
	switch {
	case err == nil && len(cluster.Masters) != masters:
		return cluster, look.spans, fmt.Errorf("%s holds a cluster of %d masters, not %d; say --masters %d or name another folder",
			dir, len(cluster.Masters), masters, len(cluster.Masters))
	case err == nil:
		err = checkFree(cluster)
	case errors.Is(err, os.ErrNotExist):
		cluster.Masters, err = planMasters(dir, masters, defaults, gateway, look)
	}
	if err != nil {
		return cluster, look.spans, err
	}
	if cluster.Agents, err = planAgents(cluster, agents, look); err != nil {
		return cluster, look.spans, err
	}
	claimed = append(look.spans, claimBlocks(cluster.Agents)...)
	return cluster, claimed, writeJSON(filepath.Join(dir, planFile), cluster)
}

func planMasters(dir string, count int, defaults, gateway bool, look *portLook) ([]Master, error) {
	masters := make([]Master, count)
	var peers []Peer
	for i := range masters {
		id := "m" + strconv.Itoa(i+1)
		ports, err := look.freePorts(3)
		if err != nil {
			return nil, err
		}
		if defaults && i == 0 && free(masterGRPC) && (gateway || free(masterHTTP)) {
			ports[0] = masterGRPC
			if !gateway {
				ports[1] = masterHTTP
			}
			if free(masterRaft) {
				ports[2] = masterRaft
			}
		}
		masters[i] = Master{ID: id, GRPC: at(ports[0]), HTTP: at(ports[1]), Raft: at(ports[2]), Dir: filepath.Join(dir, "master-"+id)}
		peers = append(peers, Peer{id, masters[i].Raft})
	}
	for i := range masters {
		masters[i].Peers = peers
	}
	return masters, nil
}

// planAgents keeps the known agents and adds new ones.
func planAgents(cluster Cluster, count int, look *portLook) ([]Agent, error) {
	agents := cluster.Agents[:min(count, len(cluster.Agents))]
	var masters []string
	for _, master := range cluster.Masters {
		masters = append(masters, master.GRPC)
	}
	for i := range count {
		if i == len(agents) {
			ports, err := look.freePorts(1)
			if err != nil {
				return nil, err
			}
			if i == 0 && cluster.Masters[0].HTTP == at(masterHTTP) && free(agentHTTP) {
				ports[0] = agentHTTP
			}
			agents = append(agents, Agent{HTTP: at(ports[0])})
		}
		agents[i].Number, agents[i].Masters, agents[i].ID = i, masters, ""
		// It is named after its number, not like an ID: the quorum gives IDs in the order in which the agents register.
		base := "host-" + strconv.Itoa(i+1)
		if kept := agents[i].Dir; kept != "" {
			base = filepath.Base(kept) // the whole folder may have been moved since
		}
		agents[i].Dir = filepath.Join(cluster.Dir, base)
	}
	return agents, nil
}

// checkFree reports an address of a kept folder that is taken.
func checkFree(cluster Cluster) error {
	for i := range cluster.Masters {
		master := &cluster.Masters[i]
		// The folder may have been moved since.
		master.Dir = filepath.Join(cluster.Dir, "master-"+master.ID)
		for _, other := range cluster.Masters {
			master.Peers = append(master.Peers, Peer{other.ID, other.Raft})
		}
		for _, address := range []string{master.GRPC, master.HTTP, master.Raft} {
			if err := tryListen(address); err != nil {
				return fmt.Errorf("%s was used with master %s at %s, which is taken: %w; end what listens there, or name another folder",
					cluster.Dir, master.ID, address, err)
			}
		}
	}
	for _, agent := range cluster.Agents {
		if err := tryListen(agent.HTTP); err != nil {
			return fmt.Errorf("%s was used with an agent at %s, which is taken: %w; end what listens there, or name another folder",
				cluster.Dir, agent.HTTP, err)
		}
	}
	return nil
}

func at(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

func free(port int) bool { return tryListen(at(port)) == nil }

func tryListen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return syscall.EADDRINUSE
		}
		return err
	}
	return listener.Close()
}

// portLook finds free ports. It finds none twice, and none that the cluster has.
type portLook struct {
	next, tries int
	taken       map[string]bool
	spans       claims // held until they are released
}

// newLook claims the spans of what the cluster has, and begins at a random one.
func newLook(cluster Cluster) *portLook {
	l := &portLook{next: rand.IntN(spans) * spanPorts, taken: map[string]bool{}}
	for _, master := range cluster.Masters {
		l.taken[master.GRPC], l.taken[master.HTTP], l.taken[master.Raft] = true, true, true
	}
	for _, agent := range cluster.Agents {
		l.taken[agent.HTTP] = true
	}
	for address := range l.taken { // order: irrelevant because a span is claimed once
		_, text, _ := net.SplitHostPort(address)
		if port, _ := strconv.Atoi(text); port%spanPorts > 0 && port > portMin && port < portMin+spans*spanPorts {
			l.claim(port - port%spanPorts)
		}
	}
	return l
}

// claim claims the span that begins with a port. It reports whether nobody else has it.
func (l *portLook) claim(first int) bool {
	held, err := net.Listen("tcp", at(first))
	if err == nil {
		l.spans = append(l.spans, held)
	}
	return err == nil
}

// freePorts finds ports on which nobody listens. When other clusters have all spans, it finds them anywhere.
func (l *portLook) freePorts(count int) ([]int, error) {
	var ports []int
	for ; len(ports) < count; l.tries++ {
		if l.tries >= 2*spans*spanPorts {
			return nil, fmt.Errorf("no free port between %d and %d on %s", portMin, claimMin, loopback)
		}
		candidate := portMin + l.next%(spans*spanPorts)
		l.next++
		switch {
		case candidate%spanPorts == 0 && l.tries < spans*spanPorts:
			if !l.claim(candidate) {
				l.next, l.tries = l.next+spanPorts-1, l.tries+spanPorts-1
			}
		case !l.taken[at(candidate)] && free(candidate):
			ports = append(ports, candidate)
		}
	}
	return ports, nil
}

func readJSON(name string, into any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// writeJSON replaces the file as a whole: a reader sees either the old or the new content.
func writeJSON(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
