package hostile

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/master"
	"github.com/tenderhq/tender/master/core"
)

const (
	// offersWanted is how many offers the honest framework waits for, one after the other.
	offersWanted = 20
	// sentWanted is how many messages the hostile peers must have sent by the end.
	sentWanted = 1_500
	// heapGrowthMax is how much memory they may leave in use: sessions, queues, lanes, programs and stores, each of
	// which is limited.
	heapGrowthMax = 256 << 20
)

// TestHostilePeersEndNothing (R34, R36): beside all hostile peers an honest framework gets the offers that it wants,
// again and again, in the same term. The master's memory stays within the sum of its limits.
func TestHostilePeersEndNothing(t *testing.T) {
	m, ended := lead(t)
	term, _ := m.Leading()
	ctx, cancel := context.WithCancel(t.Context())
	target := Target{GRPC: m.GRPCAddr(), HTTP: m.HTTPAddr(), Raft: m.RaftAddr(), sent: new(atomic.Int64)}
	limit := "cpus:1;mem:64"
	if _, err := apiv1.NewOperatorServiceClient(target.connect(ctx)).SetRole(ctx, &apiv1.SetRoleRequest{Role: Role, Limit: &limit}); err != nil {
		t.Fatal(err)
	}
	working, done := context.WithCancel(ctx)
	go func() {
		defer done() // without an agent there are no offers to wait for
		beatAsAgent(ctx, t, target)
	}()
	before := heap()
	storm, calm := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		run(storm, target, Peers())
	}()
	honest := &patient{sent: target.sent, done: done}
	if err := framework.Run(working, framework.Config{Name: "honest", Masters: []string{m.GRPCAddr()}}, honest); err != nil {
		t.Errorf("the honest framework ended with %v", err)
	}
	calm()
	<-over
	after := heap()
	if now, leads := m.Leading(); !leads || now != term {
		t.Errorf("term %v was over; now it is %v (%v)", term, now, leads)
	}
	t.Logf("%d offers beside %d hostile messages; heap %d MB before and %d MB after them", honest.got, target.sent.Load(), before>>20, after>>20)
	if after > before+heapGrowthMax {
		t.Errorf("the heap grew from %d MB to %d MB", before>>20, after>>20)
	}
	cancel()
	if err := ended(); err != nil {
		t.Errorf("the master ended with %v", err)
	}
}

// lead runs a master until end is called, and returns when it leads.
func lead(t *testing.T) (m *master.Master, end func() error) {
	m, err := master.New(master.Config{
		ID: "m1", DataDir: t.TempDir(), Trust: master.Trust{Insecure: true},
		GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Raft: "127.0.0.1:0", Profile: "fast",
		Core: core.Config{SessionTimeout: 5 * time.Minute}, // what is slow here lacks a processor
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	for {
		changed := m.LeadershipChanged()
		if _, leads := m.Leading(); leads {
			break
		}
		<-changed
	}
	return m, func() error { cancel(); return <-ended }
}

// heap returns how much of the heap is in use. It collects twice, because what is in a pool outlives one collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// beatAsAgent is an honest agent on which nothing runs.
func beatAsAgent(ctx context.Context, t *testing.T, target Target) {
	a := newAgent(ctx, target, "honest", 8)
	if a == nil {
		t.Error("the honest agent was not let in")
		return
	}
	session, over := context.WithCancel(ctx)
	go func() {
		defer over()
		for {
			if _, err := a.stream.Recv(); err != nil {
				if ctx.Err() == nil {
					t.Errorf("the honest agent's session ended with %v", err)
				}
				return
			}
		}
	}()
	for a.say(pulse()) && wait(session) {
	}
}

// patient asks for one offer after the other, until it has had enough of them and the hostile peers have sent enough.
type patient struct {
	client *framework.Client
	sent   *atomic.Int64
	got    int
	done   context.CancelFunc
}

func (p *patient) Subscribed(_ context.Context, client *framework.Client) error {
	p.client = client
	return p.ask()
}

func (p *patient) ask() error {
	return p.client.Demand(api.Demand{Shapes: []api.Shape{{Resources: api.Scalars(2, 64), Count: 1}}})
}

func (p *patient) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if p.got++; p.got >= offersWanted && p.sent.Load() >= sentWanted {
		p.done()
		return nil
	}
	var answers []api.Answer
	for _, offer := range offers {
		answers = append(answers, api.Answer{Offers: []api.OfferID{offer.ID}, Filter: api.Filter{Refuse: 10 * time.Millisecond}})
	}
	return answers
}

func (p *patient) Update(context.Context, api.Status) error { return nil }
