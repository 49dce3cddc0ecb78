package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/tools/bench/hostile"
	"github.com/tenderhq/tender/tools/devcluster"
)

// hostileOffers is how many offers the honest framework takes the time of in each half of a turn, at least.
const hostileOffers = 100

// hostilePeers measures what hostile peers do to an honest framework and to the leader's memory, in turns: alone and
// beside them. The peers are other processes, which yield the processors to everybody else, and the leader and the
// honest framework get one before all others where that can be had, as if each ran on a machine of its own.
func hostilePeers(ctx context.Context, o options) (err error) {
	cluster, err := devcluster.Start(ctx, devcluster.Options{
		Binary: o.binary, Parent: o.dir, Insecure: true, Masters: 3, Agents: 2, Processes: true, Args: []string{"--agent-resources", "cpus:64;mem:65536"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if o.agents > 0 {
		flock, err := startFlock(o.agents, strings.Split(cluster.MasterAddresses(), ","))
		if err != nil {
			return err
		}
		defer flock.stop()
		if _, err := flock.awaitAll(ctx, o.agents, api.Term{}); err != nil {
			return err
		}
	}
	s := &siege{cluster: cluster, options: o}
	if s.leader, err = leaderOf(ctx, cluster); err != nil {
		return err
	}
	for _, name := range append(hostile.Names(o.peer), floodName) {
		if strings.Contains(name, o.peer) {
			log.Print(name)
		}
	}
	return s.run(ctx)
}

// siege is a cluster with an honest framework and hostile peers.
type siege struct {
	options
	cluster       *devcluster.Cluster
	leader        devcluster.Node
	alone, beside half
	sent          []string // how many messages the peers sent in each turn
}

// half is what was measured in the same half of all turns.
type half struct {
	times []time.Duration
	cpu   float64 // processors that the leader used, summed over all turns
	worst float64 // its own memory, in MB
}

func (s *siege) run(ctx context.Context) error {
	term := termOf(ctx, s.leader.GRPC)
	if err := limitHostiles(ctx, s.leader); err != nil {
		return err
	}
	first := errors.Join(goFirst(s.leader.PID, 10), goFirst(os.Getpid(), 20))
	if first != nil {
		log.Print("the leader and the honest framework share the processors with all others: ", first)
	}
	if err := s.collectGarbage(ctx); err != nil {
		return err
	}
	for range s.runs {
		if err := s.turn(ctx); err != nil {
			return err
		}
	}
	s.print()
	if now := termOf(ctx, s.leader.GRPC); now != term {
		return fmt.Errorf("the leadership did not last: term %d became %d", term, now)
	}
	return nil
}

// collectGarbage has the honest framework wish until the leader has collected garbage twice: as much memory as a master
// takes before it collects is its own, whoever is beside it.
func (s *siege) collectGarbage(ctx context.Context) error {
	before, err := collections(ctx, s.leader)
	for now := before; err == nil && now < before+2; {
		if _, err = offerTimes(ctx, s.cluster, wishes{number: 1000}); err == nil {
			now, err = collections(ctx, s.leader)
		}
	}
	return err
}

// collections returns how often a master has collected garbage.
func collections(ctx context.Context, master devcluster.Node) (n int, err error) {
	text, err := get(ctx, http.DefaultClient, "http://"+master.HTTP+"/metrics")
	if err != nil {
		return 0, err
	}
	_, number, _ := strings.Cut(string(text), "\ngo_gc_duration_seconds_count ")
	if _, err := fmt.Sscan(number, &n); err != nil {
		return 0, fmt.Errorf("the leader does not say how often it has collected garbage: %w", err)
	}
	return n, nil
}

// turn takes the honest framework's times alone, then beside the hostile peers.
func (s *siege) turn(ctx context.Context) error {
	// What the last turn left behind is over, and all is warm.
	if _, err := offerTimes(ctx, s.cluster, wishes{number: hostileOffers / 4, pause: wishPause}); err != nil {
		return err
	}
	alone := s.alone.worst // alone the first turn counts: hostile peers leave something behind
	if err := s.alone.measure(ctx, s); err != nil {
		return err
	}
	if alone > 0 {
		s.alone.worst = alone
	}
	storm, calm := context.WithCancel(ctx)
	defer calm()
	sent, err := letLoose(storm, s.leader, s.options)
	if err != nil {
		return err
	}
	err = s.beside.measure(ctx, s)
	calm()
	s.sent = append(s.sent, sent())
	return err
}

// measure takes the honest framework's times and what the leader uses meanwhile.
func (h *half) measure(ctx context.Context, s *siege) error {
	began, had := time.Now(), ownCPU(s.leader.PID)
	worst := watchMemory(s.leader.PID)
	times, err := offerTimes(ctx, s.cluster, wishes{number: hostileOffers, least: s.storm, pause: wishPause})
	h.worst = max(h.worst, worst())
	if err != nil {
		return err
	}
	h.times = append(h.times, times...)
	h.cpu += (ownCPU(s.leader.PID) - had) / time.Since(began).Seconds()
	return nil
}

func (s *siege) print() {
	line := func(what, unit, aim string, of func(*half) float64) {
		alone, beside := of(&s.alone), of(&s.beside)
		ratio := "-"
		if alone > 0 {
			ratio = fmt.Sprintf("%.1f", beside/alone)
		}
		row("beside hostile peers: "+what, fmt.Sprintf("%.2f%s", beside, unit), fmt.Sprintf("alone %.2f%s; ratio %s%s", alone, unit, ratio, aim))
	}
	offers := func(part float64) func(*half) float64 {
		return func(h *half) float64 { return ms(quantile(h.times, part)) }
	}
	line("demand to offer, p50", " ms", "", offers(0.5))
	line("demand to offer, p99", " ms", ", aim 2", offers(0.99))
	line("the leader's own memory, worst", " MB", ", aim 1.5", func(h *half) float64 { return h.worst })
	line("processors of the leader", "", "", func(h *half) float64 { return h.cpu / float64(s.runs) })
	row("offers", fmt.Sprint(len(s.beside.times)), fmt.Sprintf("%d alone; the peers sent %s messages; load %.0f", len(s.alone.times), strings.Join(s.sent, ", "), machineLoad()))
}

// leaderOf returns the master that answers a read as the leader does.
func leaderOf(ctx context.Context, cluster *devcluster.Cluster) (devcluster.Node, error) {
	for range 100 {
		for _, master := range cluster.Masters {
			conn, err := transport.Connect(master.GRPC, transport.DialTCP)
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

// termOf returns Raft's term as a master knows it; 0 if the master does not answer.
func termOf(ctx context.Context, address string) uint64 {
	conn, err := transport.Connect(address, transport.DialTCP)
	if err != nil {
		return 0
	}
	defer conn.Close()
	answer, err := apiv1.NewRaftServiceClient(conn).ListPeers(ctx, &apiv1.ListPeersRequest{})
	if err != nil {
		return 0
	}
	return answer.GetTerm().GetNumber()
}

// limitHostiles gives their role a limit: what a framework may hold without one is no fault of its master.
func limitHostiles(ctx context.Context, leader devcluster.Node) error {
	conn, err := transport.Connect(leader.GRPC, transport.DialTCP)
	if err != nil {
		return err
	}
	defer conn.Close()
	limit := "cpus:2;mem:2048"
	_, err = apiv1.NewOperatorServiceClient(conn).SetRole(ctx, &apiv1.SetRoleRequest{Role: hostile.Role, Limit: &limit})
	return err
}

// goFirst makes all threads of a process get a processor before all others except those of a higher rank. What the
// process starts must not inherit that: see yieldingTo.
func goFirst(pid, rank int) error {
	said, err := exec.Command("chrt", "--all-tasks", "--rr", "--pid", strconv.Itoa(rank), strconv.Itoa(pid)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("chrt can't put process %d first, which takes root: %w %s", pid, err, strings.TrimSpace(string(said)))
	}
	return nil
}

// watchMemory watches how much memory of its own a process has, until worst is called, which returns the most in MB.
func watchMemory(pid int) (worst func() float64) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	most := ownMB(pid)
	watching.Go(func() {
		for pause.For(ctx, 100*time.Millisecond) {
			most = max(most, ownMB(pid))
		}
	})
	return func() float64 {
		cancel()
		watching.Wait()
		return most
	}
}

// wishPause is between an answer and the next wish, so that neither waits for the other.
const wishPause = 20 * time.Millisecond

// wishes are demands of an honest framework, each for one offer, which it declines before it states the next.
type wishes struct {
	number int           // at least
	least  time.Duration // for which they go on, at least
	pause  time.Duration // between an answer and the next one
}

// offerTimes takes the time from each demand to its offer.
func offerTimes(ctx context.Context, cluster *devcluster.Cluster, wanted wishes) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &wisher{wishes: wanted, until: time.Now().Add(wanted.least)}
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
	wishes
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
	if len(w.times) >= w.number && time.Now().After(w.until) {
		w.finish()
		return answers
	}
	if err := w.client.Demand(api.Demand{}); err != nil {
		w.fail(err)
	}
	w.client.After(w.pause, func() {
		if err := w.wish(); err != nil {
			w.fail(err)
		}
	})
	return answers
}

func (w *wisher) Update(context.Context, api.Status) error { return nil }
