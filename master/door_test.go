package master_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/master"
)

// door has three masters with certificates, and an agent that wants only the leader.
type door struct {
	*house
	agent *trust.Holder
}

func newDoor(t *testing.T) *door {
	t.Helper()
	key := trust.NewKey()
	authority, err := key.Authority()
	if err != nil {
		t.Fatal(err)
	}
	pass, err := authority.Issue(trust.Identity{Kind: trust.Agent, Name: "nonce"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	d := &door{&house{t: t, net: memnet.New(), masters: map[api.MasterID]*running{}}, trust.NewHolder(pass)}
	var peers []master.Peer
	for i := range 3 {
		peers = append(peers, master.Peer{ID: api.MasterID(fmt.Sprint("m", i+1)), Addr: fmt.Sprintf("host%d:5070", i+1)})
	}
	for i, peer := range peers {
		host := fmt.Sprint("host", i+1)
		d.start(master.Config{
			ID: peer.ID, Memory: master.NewMemory(), Peers: peers, GRPC: host + ":5060", HTTP: "none", Raft: host + ":5070",
			Listen: d.net.Listen, Dial: d.net.From(host).Dial, Trust: master.Trust{Key: key}, Version: "test",
		})
	}
	return d
}

// knock is how the masters answer an agent that wants only the leader.
type knock struct {
	in      api.MasterID // the master that has let it in; "": none has
	refused int
	longest time.Duration
}

// knock asks masters at once.
func (d *door) knock(masters map[api.MasterID]*running) knock {
	d.t.Helper()
	var mu sync.Mutex
	var asked sync.WaitGroup
	result := knock{}
	for id, r := range masters {
		asked.Go(func() {
			began, refused := time.Now(), false
			conn, err := d.agent.LeaderDialer(d.net.From("client").Dial, func() { refused = true })(d.t.Context(), r.GRPCAddr())
			mu.Lock()
			defer mu.Unlock()
			result.longest = max(result.longest, time.Since(began))
			switch {
			case refused:
				result.refused++
			case err != nil:
				d.t.Errorf("%s: %v", id, err)
			case result.in != "":
				d.t.Errorf("%s and %s say that they lead", result.in, id)
			default:
				result.in = id
			}
			if err == nil {
				_ = conn.Close()
			}
		})
	}
	asked.Wait()
	return result
}

// TestTheDoorIsTheLeaders: a peer that wants only the leader is let in by the leader and refused by the others, before
// either side has proved anything. While nobody leads it waits in its handshake, and is let in by the next leader.
func TestTheDoorIsTheLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		defer d.close()
		leader := d.leader().ID()
		if got := d.knock(d.masters); got.in != leader || got.refused != 2 {
			t.Errorf("%s leads, %q lets the agent in, %d refuse", leader, got.in, got.refused)
		}
		d.stop(leader)
		waited := time.Duration(0)
		for rounds := 0; ; rounds++ {
			got := d.knock(d.masters)
			waited = max(waited, got.longest)
			if got.in != "" && got.refused == 1 {
				break
			}
			if rounds == 10 {
				t.Fatalf("nobody lets the agent in: %+v", got)
			}
		}
		if waited == 0 {
			t.Error("nobody led, and nobody waited until somebody did")
		}
	})
}

// TestWhoWaitsAtTheDoorHoldsUpNoEnd: a master that can't know the leader ends at once, even if peers wait for that.
func TestWhoWaitsAtTheDoorHoldsUpNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		defer d.close()
		leader := d.leader().ID()
		last := d.masters["m1"]
		if leader == last.ID() {
			last = d.masters["m2"]
		}
		for id := range d.masters {
			if id != last.ID() {
				d.stop(id)
			}
		}
		<-time.After(time.Minute) // in the bubble's time: it has no majority, and knows of no leader
		answered := make(chan time.Time, 1)
		asked := map[api.MasterID]*running{last.ID(): last}
		go func() { d.knock(asked); answered <- time.Now() }()
		synctest.Wait()
		began := time.Now()
		d.stop(last.ID())
		if took := (<-answered).Sub(began); took > 100*time.Millisecond {
			t.Errorf("the agent was told %v after the end had begun", took)
		}
	})
}
