// Package hostile has peers of a master that send the worst of each kind: it shows what they do to those beside them.
// They never end by themselves and do not report what they were answered.
package hostile

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/tools/loopback"
)

// Role is the role of all hostile frameworks. A benchmark gives it a limit: what a framework may hold without a limit
// is not the fault of its master.
const Role = "hostile"

// AddressBeside is the number of an address (see package loopback) that neither a peer nor a flock has; those of the
// peers follow it. Masters limit what comes from one address, and only those who are meant to may share such a limit.
const AddressBeside = 1 << 16

// Target is a master.
type Target struct {
	GRPC string
	HTTP string // "": it has none
	Raft string // "": it is not attacked there
	sent *atomic.Int64
	from int // the number of the peer's own address
}

// Peer is a hostile peer.
type Peer struct {
	Name string
	run  func(context.Context, Target)
}

// Peers returns all of them.
func Peers() []Peer {
	return []Peer{
		{"a scheduler that reads nothing", deafScheduler},
		{"a scheduler that asks for everything again and again", asker},
		{"a scheduler that answers offers which it does not have with thousands of tasks", accepter},
		{"a scheduler whose every demand has new constraints", demander},
		{"a scheduler that sends as many calls as a message holds", crammer},
		{"schedulers that come and go", comer},
		{"a scheduler that fills its store, and watches that nobody reads", hoarder},
		{"a scheduler that asks for all that it has stored and reads no answer", deafReader},
		{"an agent that reads nothing", deafAgent},
		{"an agent that tells of tasks which nobody launched", liar},
		{"strangers who open streams and connections and say nothing", mute},
		{"strangers who read everything again and again", poller},
	}
}

// Names returns the names that contain a word.
func Names(word string) []string {
	var names []string
	for _, peer := range named(word) {
		names = append(names, peer.Name)
	}
	return names
}

func named(word string) []Peer {
	return slices.DeleteFunc(Peers(), func(peer Peer) bool { return !strings.Contains(peer.Name, word) })
}

// Run runs the peers whose name contains a word against the master, until ctx ends; "" runs all of them. It returns how
// many messages and connections they made.
func Run(ctx context.Context, target Target, word string) int64 {
	target.sent = new(atomic.Int64)
	return run(ctx, target, named(word))
}

func run(ctx context.Context, target Target, peers []Peer) int64 {
	var all sync.WaitGroup
	for i, peer := range peers {
		target := target
		target.from = AddressBeside + 1 + i
		all.Go(func() {
			for ctx.Err() == nil { // each life ends when the master throws the peer out
				life, end := context.WithCancel(ctx)
				peer.run(life, target)
				end()
				pause.For(ctx, comeBackAfter)
			}
		})
	}
	all.Wait()
	return target.sent.Load()
}

// comeBackAfter is how long a peer waits after it was thrown out.
const comeBackAfter = 50 * time.Millisecond

// dial opens a connection from the peer's own address.
func (t Target) dial(ctx context.Context, to string) (net.Conn, error) {
	return loopback.Dialer(t.from).DialContext(ctx, "tcp", to)
}

// connect makes a connection that ends with ctx.
func (t Target) connect(ctx context.Context) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///"+t.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(t.dial))
	if err != nil {
		panic(fmt.Sprintf("%s is no address: %v", t.GRPC, err)) // a bug of ours
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn
}

// mutePerAddress is how many connections without a word a stranger opens to each port: to two of them more than an
// address may have.
const mutePerAddress = 600

// mute opens streams and connections and sends nothing.
func mute(ctx context.Context, target Target) {
	for range 10 {
		if !muteStreams(ctx, target) {
			return
		}
	}
	for _, address := range []string{target.GRPC, target.Raft, target.HTTP} {
		for range mutePerAddress {
			if address == "" {
				break
			}
			conn, err := loopback.Dialer(target.from).DialContext(ctx, "tcp", address)
			if err != nil {
				break
			}
			target.sent.Add(1)
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
	}
	pause.For(ctx, 10*time.Second)
}

// muteStreams opens streams of agents, and streams of schedulers on one connection: fewer than a connection may have,
// because a further one would wait.
func muteStreams(ctx context.Context, target Target) bool {
	schedulers := apiv1.NewSchedulerServiceClient(target.connect(ctx))
	for range 20 {
		_, err := schedulers.Session(ctx)
		if err == nil {
			_, err = direct.Open[apiv1.AgentCalls, apiv1.AgentEvents](ctx, target.dial, target.GRPC, api.MessageBytesMax)
		}
		if err != nil {
			return false
		}
		target.sent.Add(2)
	}
	return true
}
