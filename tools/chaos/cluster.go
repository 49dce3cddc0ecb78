package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/freeports"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/tools/devcluster"
)

// cluster is everything that runs.
type cluster struct {
	options    options
	dir        string
	network    *network
	masters    []*node // the members of the quorum
	spare      []*node // masters that have not joined yet
	gone       []*node // masters that were removed
	agents     []*node
	schedulers []*node
	grpc       map[string]*grpc.ClientConn // to each master, without its proxy
	agentPorts []string                    // the HTTP ports of the agents
	journal    *follower
	ledger     *ledger
	disk       *smallDisk // the disk of the first master; nil: an ordinary one
	agentDisk  *smallDisk // the disk of the first agent; nil: an ordinary one
	trust      *certified // nil: there are no certificates
}

func newCluster(o options) (*cluster, error) {
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.parent(), "tender-chaos-")
	if err != nil {
		return nil, err
	}
	c := &cluster{options: o, dir: dir, grpc: map[string]*grpc.ClientConn{}, ledger: newLedger()}
	if o.life > 0 {
		c.trust = &certified{cluster: c, life: o.life}
	}
	c.network = newNetwork(c.pids)
	if err := c.makeMasters(binary); err != nil {
		return nil, err
	}
	if o.executors > 0 {
		c.agents = []*node{c.onlyAgent(binary)}
		return c, os.Chmod(dir, 0o711) // the users of tasks pass through it
	}
	for i := range o.agents {
		name := fmt.Sprint("a", i+1)
		c.agents = append(c.agents, &node{name: name, binary: binary, dir: dir, args: append([]string{
			"agent", "--master", c.addresses(), "--data-dir", filepath.Join(dir, name), "--hostname", name, "--http-port", c.agentPorts[i],
			"--task-user", devcluster.Me(),
			"--resources", "cpus:4;mem:4096;disk:4096", "--recovery-timeout", "2m", "--log-level", "info",
		}, c.trust.agentProof()...)})
		if o.mounts {
			if err := c.agents[i].giveHost(self); err != nil {
				return nil, err
			}
		}
	}
	for i := range 2 {
		name := fmt.Sprint("s", i+1)
		c.schedulers = append(c.schedulers, &node{name: name, binary: self, dir: dir, args: []string{"scheduler", dir, name, c.addresses()}})
	}
	if o.mounts {
		if c.disk, err = mountSmallDisk(filepath.Join(dir, c.masters[0].name)); err != nil {
			return nil, err
		}
		if c.agentDisk, err = mountSmallDisk(filepath.Join(dir, c.agents[0].name)); err != nil {
			return nil, err
		}
	}
	return c, os.Mkdir(filepath.Join(dir, "proof"), 0o700)
}

func (c *cluster) makeMasters(binary string) error {
	ports, err := freeports.Reserve(3*c.options.masters + c.options.agents)
	if err != nil {
		return err
	}
	for _, port := range ports[3*c.options.masters:] {
		c.agentPorts = append(c.agentPorts, strconv.Itoa(port))
	}
	var peers []string
	founders := c.options.masters
	if c.options.grow {
		founders = 1
	}
	for i := range founders {
		peers = append(peers, fmt.Sprintf("m%d=127.0.1.%d:%d", i+1, i+1, ports[3*i+1]))
	}
	for i := range c.options.masters {
		name, host := fmt.Sprint("m", i+1), fmt.Sprint("127.0.1.", i+1)
		grpcPort, raftPort, httpPort := strconv.Itoa(ports[3*i]), strconv.Itoa(ports[3*i+1]), strconv.Itoa(ports[3*i+2])
		n := &node{name: name, binary: binary, dir: c.dir, http: "127.0.0.1:" + httpPort, args: append([]string{
			"master", "--id", name, "--data-dir", filepath.Join(c.dir, name), "--peers", strings.Join(peers, ","),
			"--bind", "127.0.0.1", "--advertise", host, "--grpc-port", grpcPort, "--raft-port", raftPort, "--http-port", httpPort,
			"--raft-profile", c.options.profile, "--log-level", "info",
		}, c.trust.masterProof()...)}
		for _, port := range []string{grpcPort, raftPort} {
			n.proxies = append(n.proxies, &proxy{network: c.network, to: name, front: host + ":" + port, back: "127.0.0.1:" + port})
		}
		if i < founders {
			c.masters = append(c.masters, n)
		} else {
			c.spare = append(c.spare, n)
		}
		if c.grpc[name], err = transport.Connect("127.0.0.1:"+grpcPort, c.trust.dialMaster); err != nil {
			return err
		}
	}
	return nil
}

// addresses returns the addresses of the masters' proxies.
func (c *cluster) addresses() string {
	var list []string
	for _, m := range c.masters {
		list = append(list, m.proxies[0].front)
	}
	return strings.Join(list, ",")
}

// nodes returns all nodes that should be running.
func (c *cluster) nodes() []*node { return slices.Concat(c.masters, c.agents, c.schedulers) }

func (c *cluster) pids() map[int]string {
	pids := map[int]string{}
	for _, n := range c.nodes() {
		if pid := n.pid(); pid > 0 {
			pids[pid] = n.line()
		}
	}
	return pids
}

func (c *cluster) start(ctx context.Context) error {
	file, err := openJournal(filepath.Join(c.dir, "journal"))
	if err != nil {
		return err
	}
	c.journal = &follower{file: file.file}
	if err := c.trust.found(ctx); err != nil {
		return err
	}
	if err := startAll(c.masters); err != nil {
		return err
	}
	if err := c.trust.enrol(ctx); err != nil {
		return err
	}
	if err := startAll(slices.Concat(c.agents, c.schedulers)); err != nil {
		return err
	}
	return c.await(ctx, "the start", 0, func(ctx context.Context) string { return c.illness(ctx, time.Time{}) })
}

func startAll(nodes []*node) error {
	for _, n := range nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	return nil
}

// stop ends every process that was started, and the processes that these have started.
func (c *cluster) stop(failed bool) {
	c.trust.disband()
	for _, n := range slices.Concat(c.nodes(), c.spare, c.gone) {
		n.signal(syscall.SIGCONT)
		n.kill(syscall.SIGKILL)
	}
	c.network.close()
	for _, pid := range leftovers(c.dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
	}
	for _, conn := range c.grpc {
		_ = conn.Close() // nothing depends on it
	}
	if failed || c.options.keep {
		for _, d := range c.disks() { // they end with this process
			d.keep(d.dir + ".kept")
		}
		fmt.Fprintln(os.Stderr, "chaos: logs and data are in", c.dir)
		return
	}
	for _, d := range c.disks() {
		d.unmount()
	}
	if err := os.RemoveAll(c.dir); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
}

func (c *cluster) disks() []*smallDisk {
	if c.disk == nil {
		return nil
	}
	return []*smallDisk{c.disk, c.agentDisk}
}

// leftovers returns the executors and tasks that are left: their environment names our folder.
func leftovers(dir string) (pids []int) {
	entries, _ := os.ReadDir("/proc") // without /proc nothing can be found
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		command, err1 := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		environ, err2 := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err1 == nil && err2 == nil && (bytes.Contains(command, []byte(dir)) || bytes.Contains(environ, []byte(dir))) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// look reads the journal and updates the ledger.
func (c *cluster) look() error {
	entries, err := c.journal.read()
	for _, e := range entries {
		c.ledger.add(e)
	}
	return err
}

const lookEvery = 20 * time.Millisecond

// hangAfter ends a wait that has no limit of its own. It is for hangs only: everything that is waited for takes
// seconds, also on a machine that does ten other things.
const hangAfter = 4 * time.Minute

// await waits until wrong returns "". If that takes too long, it returns an error with the last result and the state of
// the cluster.
func (c *cluster) await(ctx context.Context, what string, limit time.Duration, wrong func(context.Context) string) error {
	began := time.Now()
	for {
		if err := c.look(); err != nil {
			return err
		}
		why := wrong(ctx)
		for _, n := range c.nodes() {
			if n.hopeless() {
				return fmt.Errorf("%s ends again and again; its log tells why", n.name)
			}
		}
		switch {
		case why == "":
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("given up awaiting %s: %s", what, why)
		case limit > 0 && time.Since(began) > limit:
			return fmt.Errorf("%s took longer than %v: %s\n%s", what, limit, why, c.state(ctx))
		case limit == 0 && time.Since(began) > hangAfter:
			return fmt.Errorf("%s has not come for %v: %s\n%s", what, hangAfter, why, c.state(ctx))
		}
		pause(ctx, lookEvery)
	}
}

func (c *cluster) operator(m *node) apiv1.OperatorServiceClient {
	return apiv1.NewOperatorServiceClient(c.grpc[m.name])
}

func (c *cluster) raft(m *node) apiv1.RaftServiceClient {
	return apiv1.NewRaftServiceClient(c.grpc[m.name])
}

// term returns who leads and in which term, as the leader says.
func (c *cluster) term(ctx context.Context) (leader, term string) {
	m := c.leader(ctx)
	if m == nil {
		return "nobody", "none"
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.operator(m).GetCluster(ctx, &apiv1.GetClusterRequest{})
	if err != nil {
		return m.name, err.Error()
	}
	return m.name, fmt.Sprintf("%d.%d", answer.GetTerm().GetEpoch(), answer.GetTerm().GetNumber())
}

// lagMax is how many entries a healthy master may be behind another one.
const lagMax = 50

// laggard returns a master that does not answer, or is too far behind.
func (c *cluster) laggard(ctx context.Context) string {
	var low, high uint64
	var last string
	for i, m := range c.masters {
		answer, err := c.raft(m).ListPeers(ctx, &apiv1.ListPeersRequest{})
		if err != nil {
			return m.name + ": " + err.Error()
		}
		applied := answer.GetAppliedIndex()
		if i == 0 || applied < low {
			low, last = applied, m.name
		}
		high = max(high, applied)
	}
	if high-low > lagMax {
		return fmt.Sprintf("%s is %d entries behind", last, high-low)
	}
	return ""
}

// state returns what the cluster says about itself, and the last lines of every process.
func (c *cluster) state(ctx context.Context) string {
	var text strings.Builder
	for _, args := range [][]string{
		{"get", "masters"}, {"get", "agents"}, {"get", "frameworks", "-o", "wide"}, {"get", "tasks"}, {"get", "offers"},
	} {
		said, err := c.ask(ctx, args...)
		if err != nil {
			said = fmt.Appendln(said, err)
		}
		fmt.Fprintf(&text, "$ tender %s\n%s", strings.Join(args, " "), said)
	}
	for _, n := range c.nodes() {
		log, err := os.ReadFile(filepath.Join(c.dir, n.name+".log"))
		if err != nil {
			log = fmt.Appendln(nil, err)
		}
		lines := slices.Collect(strings.Lines(string(log)))
		fmt.Fprintf(&text, "== %s\n%s", n.name, strings.Join(lines[max(0, len(lines)-linesShown):], ""))
	}
	return text.String()
}

// linesShown is how many lines of each process's log are shown if a wait does not end.
const linesShown = 15

const callTimeout = 2 * time.Second

// awaitLeader waits for a leader and returns it. Between two looks a leader may lose its office.
func (c *cluster) awaitLeader(ctx context.Context) (leader *node, err error) {
	err = c.await(ctx, "a leader", c.options.heal, func(ctx context.Context) string {
		if leader = c.leader(ctx); leader == nil {
			return "nobody leads"
		}
		return ""
	})
	return leader, err
}

// leader asks all masters; it returns nil if none answers as leader.
func (c *cluster) leader(ctx context.Context) *node {
	for _, m := range c.masters {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := c.operator(m).ListRoles(ctx, &apiv1.ListRequest{})
		cancel()
		if err == nil {
			return m
		}
	}
	return nil
}

// illness returns why the cluster does not work yet; "" if it does. since is when the last fault was over: a task that
// was launched after it must have ended. Whether all fits together is judged by `tender verify`.
func (c *cluster) illness(ctx context.Context, since time.Time) string {
	leader := c.leader(ctx)
	if leader == nil {
		return "nobody leads"
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	agents, err := c.operator(leader).ListAgents(ctx, &apiv1.ListRequest{})
	if err != nil {
		return err.Error()
	}
	well := 0
	for _, a := range agents.GetItems() {
		if a.GetState() == "RUNNING" || a.GetState() == "BUSY" {
			well++
		}
	}
	if well != len(c.agents) {
		return fmt.Sprintf("%d of %d agents are well", well, len(c.agents))
	}
	if _, ok := c.ledger.firstAfter(since, func(t *task) time.Time { return t.ended }); !ok {
		return "no new task has ended"
	}
	return ""
}
