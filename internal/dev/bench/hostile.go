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
	"os/exec"
	"path/filepath"
	"slices"
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
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
)

const (
	// hostileOffers is how many offers the honest framework takes the time of in each turn, alone
	// and again beside the others.
	hostileOffers = 100
	// profileTime is how long the leader's processor is watched for a profile.
	profileTime = 5 * time.Second
)

// hostilePeers measures what hostile peers do to an honest framework and to the leader's
// memory, in turns: alone, beside them, alone again. They are another process that yields the
// processors to everybody else, as if it ran on machines of its own.
func hostilePeers(ctx context.Context, o options) error {
	for _, name := range append(hostile.Names(o.peer), floodName) {
		if strings.Contains(name, o.peer) {
			fmt.Println("* " + name)
		}
	}
	cluster, err := devcluster.Start(ctx, devcluster.Options{
		Binary: o.binary, Parent: o.dir, Masters: 3, Agents: 2, Processes: true, Args: []string{"--agent-resources", "cpus:64;mem:65536"},
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
	alone, beside   []time.Duration
	aloneCPU, storm used    // the leader's
	before, worst   float64 // the leader's memory
	sent            []string
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

// turn takes the honest framework's times alone and then beside the hostile peers.
func (all *turns) turn(ctx context.Context, cluster *devcluster.Cluster, leader devcluster.Node, o options) error {
	if _, err := offerTimes(ctx, cluster, hostileOffers/4, 0); err != nil { // warms up
		return err
	}
	memory, cpu := watchMemory(leader.PID), watchProcessors(leader.PID)
	defer memory.end()
	times, err := offerTimes(ctx, cluster, hostileOffers, 0)
	if err != nil {
		return err
	}
	all.alone, all.aloneCPU = append(all.alone, times...), all.aloneCPU.and(cpu())
	if all.before == 0 {
		all.before = memory.worst()
	}
	storm, calm := context.WithCancel(ctx)
	defer calm()
	sent, err := letLoose(storm, leader, o)
	if err != nil {
		return err
	}
	profiled := profileLeader(leader, o.profile)
	cpu = watchProcessors(leader.PID)
	times, err = offerTimes(ctx, cluster, hostileOffers, o.storm)
	all.storm = all.storm.and(cpu())
	calm()
	all.sent = append(all.sent, sent())
	if err != nil {
		return fmt.Errorf("beside the hostile peers: %w", err)
	}
	all.beside = append(all.beside, times...)
	all.worst = max(all.worst, memory.worst())
	return <-profiled
}

func (all *turns) print(o options) {
	fmt.Printf("\n%d offers alone, %d beside hostile peers that sent %s messages; %d turns; %d agents that are only sessions; %s\n\n",
		len(all.alone), len(all.beside), strings.Join(all.sent, ", "), o.runs, o.agents, loadNow())
	fmt.Println("| what | alone | beside them | ratio |")
	fmt.Println("|---|---|---|---|")
	ratio := func(what string, a, b float64, unit string) {
		fmt.Printf("| %s | %.2f %s | %.2f %s | %.1f |\n", what, a, unit, b, unit, b/a)
	}
	ratio("demand to offer, p50", ms(quantile(all.alone, 0.5)), ms(quantile(all.beside, 0.5)), "ms")
	ratio("demand to offer, p99", ms(quantile(all.alone, 0.99)), ms(quantile(all.beside, 0.99)), "ms")
	ratio("the leader's own memory, worst", all.before, all.worst, "MB")
	ratio("the leader's processors", all.aloneCPU.busy/float64(o.runs), all.storm.busy/float64(o.runs), "")
	ratio("its threads that wait for one", all.aloneCPU.waiting/float64(o.runs), all.storm.waiting/float64(o.runs), "")
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
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command("nice", "-n", "19", self, "-only", "hostiles", "-binary", o.binary, "-masters", leader.GRPC+","+leader.HTTP, "-peer", o.peer)
	child.SysProcAttr, child.Stderr = ofOurs(), os.Stderr
	in, err := child.StdinPipe()
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // the end of it, however it comes
		cancel()
	}()
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
	config := framework.Config{Name: "flooder", Masters: []string{master}, Roles: []api.Role{hostile.Role}, TeardownAtEnd: true}
	return framework.Run(ctx, config, &flooder{self: self})
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

// offerTimes takes the time from a demand to its offer so many times, and for so long at
// least.
func offerTimes(ctx context.Context, cluster *devcluster.Cluster, n int, least time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &wisher{wanted: n, until: time.Now().Add(least)}
	w.finish = cancel
	config := framework.Config{Name: "honest", Masters: strings.Split(cluster.MasterAddresses(), ","), TeardownAtEnd: true}
	if err := framework.Run(ctx, config, w); err != nil {
		return nil, err
	}
	return slices.Clone(w.times), w.failure
}

// wisher is a scheduler that wants one offer after the other and declines it.
type wisher struct {
	client *framework.Client
	ending
	wanted int
	until  time.Time
	wished time.Time
	times  []time.Duration
}

func (w *wisher) Subscribed(_ context.Context, client *framework.Client) error {
	w.client = client
	return w.wish()
}

// wish states the demand for one offer: from here the time counts.
func (w *wisher) wish() error {
	w.wished = time.Now()
	return w.client.Demand(api.Demand{Shapes: []api.Shape{{Resources: api.Scalars(8, 1024), Count: 1}}})
}

func (w *wisher) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if !w.wished.IsZero() {
		w.times = append(w.times, time.Since(w.wished))
		w.wished = time.Time{}
	}
	var answers []api.Answer
	for _, offer := range offers {
		answers = append(answers, api.Answer{Offers: []api.OfferID{offer.ID}, Filter: api.NoFilter})
	}
	if len(w.times) >= w.wanted && time.Now().After(w.until) {
		w.finish()
		return answers
	}
	if err := w.client.Demand(api.Demand{}); err != nil {
		w.fail(err)
	}
	w.client.After(wishPause, func() {
		if err := w.wish(); err != nil {
			w.fail(err)
		}
	})
	return answers
}

// wishPause is between an answer and the next wish, so that neither waits for the other.
const wishPause = 20 * time.Millisecond

func (w *wisher) Update(context.Context, api.Status) error { return nil }
