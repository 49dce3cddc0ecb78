package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/dev/bench/hostile"
	"github.com/tenderhq/tender/internal/dev/devcluster"
	"github.com/tenderhq/tender/internal/dev/loopback"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
)

const (
	// hostileOffers is how many offers the honest framework takes the time of in each section of a turn, at least.
	hostileOffers = 100
	// profileTime is how long the leader's processor is watched for a profile.
	profileTime = 5 * time.Second
)

// hostilePeers measures what hostile peers do to an honest framework and to the leader's memory, in turns: alone, beside
// them, and beside processes that are as busy and have nothing to do with us. They and these are other processes, which
// yield the processors to everybody else, as if they ran on machines of their own: what is worse beside them than
// beside busy processes, they do by what they say.
func hostilePeers(ctx context.Context, o options) error {
	for _, name := range append(hostile.Names(o.peer), floodName) {
		if strings.Contains(name, o.peer) {
			fmt.Println("* " + name)
		}
	}
	cluster, err := devcluster.Start(ctx, devcluster.Options{
		Binary: o.binary, Parent: o.dir, Insecure: true, Masters: 3, Agents: 2, Processes: true, Args: []string{"--agent-resources", "cpus:64;mem:65536"},
	})
	if err != nil {
		return err
	}
	return errors.Join(amongAgents(ctx, cluster, o), cluster.Stop())
}

// amongAgents measures in a cluster of so many agents more, which are nothing but sessions.
func amongAgents(ctx context.Context, cluster *devcluster.Cluster, o options) error {
	if o.agents == 0 {
		return besideHostiles(ctx, cluster, o)
	}
	flock, err := startFlock(o.agents, strings.Split(cluster.MasterAddresses(), ","))
	if err != nil {
		return err
	}
	defer flock.stop()
	if _, err := flock.whole(ctx, o.agents, api.Term{}); err != nil {
		return err
	}
	return besideHostiles(ctx, cluster, o)
}

// turns is what all turns have measured.
type turns struct {
	alone, busy, beside section
	sent                []string
}

// section is what was measured while the honest framework had the same beside it.
type section struct {
	times  []time.Duration
	leader used    // what its leader used, summed over all turns
	honest used    // what the honest framework's own process used
	others used    // what was beside them
	rounds buckets // of the leader's loop
	worst  float64
}

func besideHostiles(ctx context.Context, cluster *devcluster.Cluster, o options) error {
	leader, err := leaderOf(ctx, cluster)
	if err != nil {
		return err
	}
	term := termOf(ctx, leader.GRPC)
	if err := limitHostiles(ctx, leader); err != nil {
		return err
	}
	if !o.shared {
		if err := errors.Join(goFirst(leader.PID, 10), goFirst(os.Getpid(), 20)); err != nil {
			fmt.Println("\nThe leader and the honest framework share the processors with all others, as with -shared:", err)
			o.shared = true
		}
	}
	if err := collectAlone(ctx, cluster, leader); err != nil {
		return err
	}
	var all turns
	for range o.runs {
		if err := all.turn(ctx, cluster, leader, o); err != nil {
			return err
		}
	}
	all.print(o)
	if now := termOf(ctx, leader.GRPC); now != term {
		fmt.Printf("\nthe leadership did not last: term %d became %d\n", term, now)
	}
	return nil
}

// collectAlone has the honest framework wish until the leader has collected garbage twice: as much memory as a master
// takes before it collects is its own, whoever is beside it.
func collectAlone(ctx context.Context, cluster *devcluster.Cluster, leader devcluster.Node) error {
	before, err := collections(ctx, leader)
	if err != nil {
		return err
	}
	for now := before; now < before+2; {
		if _, err := offerTimes(ctx, cluster, wishes{number: 1000}); err != nil {
			return err
		}
		if now, err = collections(ctx, leader); err != nil {
			return err
		}
	}
	return nil
}

// collections is how often a master has collected garbage.
func collections(ctx context.Context, master devcluster.Node) (n float64, err error) {
	found := false
	err = metrics(ctx, master, "go_gc_duration_seconds_count", func(_ string, value float64) error {
		n, found = value, true
		return nil
	})
	if err == nil && !found {
		err = errors.New("the leader does not say how often it has collected garbage")
	}
	return n, err
}

// turn takes the honest framework's times alone, then beside the hostile peers, then beside busy processes.
func (all *turns) turn(ctx context.Context, cluster *devcluster.Cluster, leader devcluster.Node, o options) error {
	if _, err := offerTimes(ctx, cluster, wishes{number: hostileOffers / 4, pause: wishPause}); err != nil { // warms up
		return err
	}
	if err := all.alone.measure(ctx, cluster, leader, o.storm, nil); err != nil {
		return err
	}
	before := ownProcesses()
	storm, calm := context.WithCancel(ctx)
	defer calm()
	sent, err := letLoose(storm, leader, o)
	if err != nil {
		return err
	}
	profiled := profileLeader(leader, o.profile)
	hostiles := func() []busyProcess { return seenSince(before) }
	err = all.beside.measure(ctx, cluster, leader, o.storm, hostiles)
	seen := hostiles()
	calm()
	all.sent = append(all.sent, sent())
	if err = errors.Join(err, <-profiled); err != nil {
		return fmt.Errorf("beside the hostile peers: %w", err)
	}
	if _, err := offerTimes(ctx, cluster, wishes{number: hostileOffers / 4, pause: wishPause}); err != nil { // what they have left behind is over
		return err
	}
	return all.besideBusy(ctx, cluster, leader, o, seen)
}

// besideBusy takes the times beside as many processes as there were hostile ones, with as many threads that use as much
// of the processors.
func (all *turns) besideBusy(ctx context.Context, cluster *devcluster.Cluster, leader devcluster.Node, o options, like []busyProcess) error {
	before := ownProcesses()
	life, end := context.WithCancel(ctx)
	var started []func()
	defer func() {
		end()
		for _, ended := range started {
			ended()
		}
	}()
	for _, one := range like {
		ended, err := one.start(life)
		if err != nil {
			return err
		}
		started = append(started, ended)
	}
	if err := all.busy.measure(ctx, cluster, leader, o.storm, func() []busyProcess { return seenSince(before) }); err != nil {
		return fmt.Errorf("beside busy processes: %w", err)
	}
	return nil
}

// loopRounds is how long the leader's loop takes for a round, for which what comes meanwhile has to wait.
const loopRounds = "tender_loop_round_seconds"

// measure takes the honest framework's times, for so long at least. Others are what runs beside it; nil: nothing.
func (s *section) measure(ctx context.Context, cluster *devcluster.Cluster, leader devcluster.Node, least time.Duration, others func() []busyProcess) error {
	rounds, err := histogram(ctx, cluster, loopRounds)
	if err != nil {
		return err
	}
	memory, ofLeader, ofHonest := watchMemory(leader.PID), watchProcessors(leader.PID), watchProcessors(os.Getpid())
	defer memory.end()
	times, err := offerTimes(ctx, cluster, wishes{number: hostileOffers, least: least, pause: wishPause})
	if err != nil {
		return err
	}
	s.leader, s.honest = s.leader.and(ofLeader()), s.honest.and(ofHonest())
	if others != nil {
		for _, one := range others() {
			s.others.busy += one.processors
		}
	}
	s.times = append(s.times, times...)
	if s.worst == 0 || others != nil { // alone the first time is meant: hostile peers leave something behind
		s.worst = max(s.worst, memory.worst())
	}
	now, err := histogram(ctx, cluster, loopRounds)
	s.rounds = s.rounds.and(now.less(rounds))
	return err
}

func (all *turns) print(o options) {
	fmt.Printf("\n%d offers alone, %d beside busy processes, %d beside hostile peers that sent %s messages; %d turns; %d agents that are only sessions; %s; %s\n\n",
		len(all.alone.times), len(all.busy.times), len(all.beside.times), strings.Join(all.sent, ", "), o.runs, o.agents, loadNow(), processors(o))
	fmt.Println("| what | alone | beside busy processes | beside hostile peers | hostile / alone | hostile / busy | aim |")
	fmt.Println("|---|---|---|---|---|---|---|")
	line := func(what, unit, aim string, of func(*section) float64) {
		alone, busy, beside := of(&all.alone), of(&all.busy), of(&all.beside)
		fmt.Printf("| %s | %.2f%s | %.2f%s | %.2f%s | %s | %s | %s |\n", what, alone, unit, busy, unit, beside, unit, times(beside, alone), times(beside, busy), aim)
	}
	offers := func(part float64) func(*section) float64 {
		return func(s *section) float64 { return ms(quantile(s.times, part)) }
	}
	each := func(sum func(*section) float64) func(*section) float64 {
		return func(s *section) float64 { return sum(s) / float64(o.runs) }
	}
	line("demand to offer, p50", " ms", "", offers(0.5))
	line("demand to offer, p99", " ms", "2", offers(0.99))
	line("of that a round of the leader's loop, p99", " ms", "", func(s *section) float64 { return 1000 * s.rounds.quantile(0.99) })
	line("the leader's own memory, worst", " MB", "1.5", func(s *section) float64 { return s.worst })
	line("of that more than alone", " MB", "", func(s *section) float64 { return max(0, s.worst-all.alone.worst) })
	line("processors of the leader", "", "", each(func(s *section) float64 { return s.leader.busy }))
	line("of what is beside", "", "", each(func(s *section) float64 { return s.others.busy }))
	line("threads of the leader that wait for one", "", "", each(func(s *section) float64 { return s.leader.waiting }))
	line("of the honest framework", "", "", each(func(s *section) float64 { return s.honest.waiting }))
	fmt.Println("\nThe leader's memory beside busy processes is what the hostile peers of the same turn have left.")
}

// processors tells whose they are.
func processors(o options) string {
	if o.shared {
		return "the leader and the honest framework share the processors with all others"
	}
	return "the leader and the honest framework have a processor before all others"
}

// times is how many times as much a is as b; nothing of nothing.
func times(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", a/b)
}

// loadNow is the machine's load in words.
func loadNow() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "its load is not known"
	}
	load, _, _ := strings.Cut(string(data), " ")
	return "load " + load
}

// used is how many processors a process has kept busy, and how many of its threads waited for one, on average.
type used struct{ busy, waiting float64 }

func (u used) and(v used) used { return used{u.busy + v.busy, u.waiting + v.waiting} }

// watchProcessors returns what a process has used since.
func watchProcessors(pid int) func() used {
	began, had := time.Now(), used{ownCPU(pid), waitedFor(pid)}
	return func() used {
		took := time.Since(began).Seconds()
		return used{(ownCPU(pid) - had.busy) / took, (waitedFor(pid) - had.waiting) / took}
	}
}

// profileLeader writes what the leader's processor does and what is on its heap into a folder; none
// for no folder.
func profileLeader(leader devcluster.Node, folder string) <-chan error {
	done := make(chan error, 1)
	if folder == "" {
		done <- nil
		return done
	}
	go func() {
		done <- errors.Join(
			download(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", leader.HTTP, profileTime.Seconds()), filepath.Join(folder, "cpu.pprof")),
			download(fmt.Sprintf("http://%s/debug/pprof/heap", leader.HTTP), filepath.Join(folder, "heap.pprof")),
			download(fmt.Sprintf("http://%s/debug/pprof/goroutine", leader.HTTP), filepath.Join(folder, "goroutine.pprof")),
		)
	}()
	return done
}

func download(url, path string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return errors.Join(err, os.WriteFile(path, data, 0o600))
}

// leaderOf is the master that answers a read as the leader does.
func leaderOf(ctx context.Context, cluster *devcluster.Cluster) (devcluster.Node, error) {
	for range 100 {
		for _, master := range cluster.Masters {
			conn, err := grpc.NewClient("passthrough:///"+master.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return master, err
			}
			_, err = apiv1.NewOperatorServiceClient(conn).ListAgents(ctx, &apiv1.ListRequest{Limit: 1})
			_ = conn.Close()
			if err == nil {
				return master, nil
			}
		}
		pause.For(ctx, 100*time.Millisecond)
	}
	return devcluster.Node{}, errors.New("no master leads")
}

// limitHostiles gives their role a limit: what a framework may hold without one is no fault
// of its master.
func limitHostiles(ctx context.Context, leader devcluster.Node) error {
	conn, err := grpc.NewClient("passthrough:///"+leader.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	limit := "cpus:2;mem:2048"
	_, err = apiv1.NewOperatorServiceClient(conn).SetRole(ctx, &apiv1.SetRoleRequest{Role: hostile.Role, Limit: &limit})
	return err
}

// letLoose starts the process of the hostile peers, which ends with ctx; sent is how many
// messages it says that it sent.
func letLoose(ctx context.Context, leader devcluster.Node, o options) (sent func() string, err error) {
	child, in, err := yielding("-only", "hostiles", "-binary", o.binary, "-masters", leader.GRPC+","+leader.HTTP, "-peer", o.peer)
	if err != nil {
		return nil, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = in.Close() })
	return func() string {
		said, _ := bufio.NewReader(out).ReadString('\n')
		_ = child.Wait() // it has said what it had to
		return strings.TrimSpace(said)
	}, nil
}

// hostilesMain is that process: it ends with its standard input.
func hostilesMain(ctx context.Context, o options) error {
	ctx, cancel := untilInputEnds(ctx)
	defer cancel()
	grpcAddress, httpAddress, _ := strings.Cut(o.masters, ",")
	flooded := make(chan error, 1)
	go func() {
		if strings.Contains(floodName, o.peer) {
			flooded <- flood(ctx, grpcAddress)
			return
		}
		flooded <- nil
	}()
	sent := hostile.Run(ctx, hostile.Target{GRPC: grpcAddress, HTTP: httpAddress}, o.peer)
	fmt.Println(sent)
	return <-flooded
}

// floodName is what the framework is called whose executors are hostile.
const floodName = "executors that flood, read nothing and guess tokens"

// flood runs a framework whose executor sends messages and reports without end.
func flood(ctx context.Context, master string) error {
	self, err := executor.Self("flooder")
	if err != nil {
		return err
	}
	self.Command.Argv = yieldingTo(self.Command.Argv...) // its agent is on another machine than the leader
	own := loopback.Dialer(hostile.AddressBeside)
	config := framework.Config{
		Name: "flooder", Masters: []string{master}, Roles: []api.Role{hostile.Role}, TeardownAtEnd: true,
		Dialer: func(ctx context.Context, address string) (net.Conn, error) {
			return own.DialContext(ctx, "tcp", address)
		},
	}
	if err := framework.Run(ctx, config, &flooder{self: self}); ctx.Err() == nil {
		return err
	}
	return nil // its removal may come too late, as it has said too much
}

// flooder runs two executors: one on the SDK that sends as much as it may, and one that keeps to no rule. To the
// second it sends messages, which that one does not read.
type flooder struct {
	self   *api.Executor
	client *framework.Client
	next   int
}

func (f *flooder) Subscribed(_ context.Context, client *framework.Client) error {
	f.client = client
	return client.Demand(api.Demand{Shapes: []api.Shape{{Resources: api.Scalars(0.1, 32), Count: 2, Constraint: notOfFlock}}})
}

func (f *flooder) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		self := *f.self
		if f.next++; f.next%2 == 0 {
			self.ID = ruleless
		}
		answers = append(answers, api.Launch(offer, api.Task{
			ID: api.TaskID(fmt.Sprint("flood-", f.next)), Resources: api.Scalars(0.1, 32), Executor: &self, Data: []byte(floodWord),
		}))
	}
	return answers
}

// Update sends messages to where something has happened.
func (f *flooder) Update(_ context.Context, status api.Status) error {
	for range 100 {
		_ = f.client.Message(status.Agent, ruleless, make([]byte, 32<<10)) // it may come to nothing
	}
	return nil
}

// Message takes what its executor sends, and sends some back.
func (f *flooder) Message(_ context.Context, agent api.AgentID, _ api.ExecutorID, _ []byte) {
	_ = f.client.Message(agent, ruleless, make([]byte, 32<<10)) // it may come to nothing
}

// notOfFlock leaves out the agents that are only sessions: no executor runs there.
const notOfFlock = `attributes.?rack.orValue("") == ""`

// ruleless is the executor that keeps to no rule.
const ruleless = "ruleless"

// hostileExecutor says whether this process is that one, and if so ends with ctx.
func hostileExecutor(ctx context.Context) (is bool, err error) {
	if os.Getenv(protocol.ExecutorIDEnv) != ruleless {
		return false, nil
	}
	descriptor, err := strconv.Atoi(os.Getenv(protocol.ExecutorTokenFDEnv))
	if err != nil {
		return true, err
	}
	token, err := io.ReadAll(os.NewFile(uintptr(descriptor), "token"))
	if err != nil {
		return true, err
	}
	hostile.RunExecutor(ctx, hostile.Socket{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", os.Getenv(protocol.ExecutorSocketEnv))
		},
		Framework: os.Getenv(protocol.ExecutorFrameworkIDEnv), Executor: ruleless, Token: string(token),
	})
	return true, nil
}

// floodWord is what the executor is told that floods.
const floodWord = "flood"

// floodTask sends as much as it is let.
func floodTask(ctx context.Context, task *executor.Task) error {
	data := make([]byte, 32<<10)
	for i := 0; ctx.Err() == nil; i++ {
		if err := task.Message(data); err != nil && !pause.For(ctx, 10*time.Millisecond) {
			return nil
		}
		task.Progress(data[:1024], fmt.Sprint("report ", i))
		pause.For(ctx, time.Millisecond) // what is not limited at the agent must not fill its disk
	}
	return nil
}

// memory watches how much a process has.
type memory struct {
	mu   sync.Mutex
	most float64
	stop context.CancelFunc
	over chan struct{}
	pid  int
}

func watchMemory(pid int) *memory {
	ctx, cancel := context.WithCancel(context.Background())
	m := &memory{stop: cancel, over: make(chan struct{}), pid: pid, most: ownMB(pid)}
	go func() {
		defer close(m.over)
		for pause.For(ctx, 100*time.Millisecond) {
			m.mu.Lock()
			m.most = max(m.most, ownMB(pid))
			m.mu.Unlock()
		}
	}()
	return m
}

func (m *memory) worst() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most
}

func (m *memory) end() float64 {
	m.stop()
	<-m.over
	return m.worst()
}
