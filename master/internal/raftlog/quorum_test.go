package raftlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/testlog"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry"
)

// cluster is masters in memory, inside a synctest bubble; or in folders, in real time.
type cluster struct {
	t     *testing.T
	mesh  *mesh
	peers []Peer
	nodes map[api.MasterID]*node
	open  func(*Log) // before Run, if set
	build func(*Config)
	real  bool // the time: then nothing is given up but with the whole test
}

type node struct {
	*Log
	memory *Memory
	stop   context.CancelFunc
	ended  chan error
}

func newQuorum(t *testing.T, n int) *cluster { return builtQuorum(t, n, nil) }

// builtQuorum starts a quorum whose masters are not all configured alike.
func builtQuorum(t *testing.T, n int, build func(*Config)) *cluster {
	q := &cluster{t: t, mesh: newMesh(), nodes: map[api.MasterID]*node{}, build: build}
	for i := range n {
		q.peers = append(q.peers, Peer{ID: api.MasterID(fmt.Sprint("m", i+1)), Addr: fmt.Sprint("host", i+1, ":5070")})
	}
	for _, peer := range q.peers {
		q.start(peer, NewMemory())
	}
	return q
}

func (q *cluster) config(peer Peer, memory *Memory) Config {
	return Config{
		Memory: memory, ID: peer.ID, Peers: q.peers, Listener: q.mesh.listen(peer.Addr), Dial: q.mesh.dialer(peer.Addr),
		Logger: testlog.New(q.t).With().Str("m", string(peer.ID)).Logger(),
	}
}

func (q *cluster) start(peer Peer, memory *Memory) *node {
	q.t.Helper()
	config := q.config(peer, memory)
	if q.build != nil {
		q.build(&config)
	}
	log, err := Open(config)
	if err != nil {
		q.t.Fatal(err)
	}
	if q.open != nil {
		q.open(log)
	}
	ctx, cancel := context.WithCancel(q.t.Context())
	n := &node{log, memory, cancel, make(chan error, 1)}
	q.nodes[peer.ID] = n
	go func() { n.ended <- log.Run(ctx) }()
	return n
}

func (q *cluster) stop(id api.MasterID) *Memory {
	n := q.nodes[id]
	n.stop()
	if err := <-n.ended; err != nil {
		q.t.Errorf("%s ended with %v", id, err)
	}
	delete(q.nodes, id)
	return n.memory
}

func (q *cluster) stopAll() {
	for _, id := range slices.Sorted(maps.Keys(q.nodes)) {
		q.stop(id)
	}
}

// leader awaits a leadership that is still on, of any master but except.
func (q *cluster) leader(except api.MasterID) (api.MasterID, *Leadership) {
	q.t.Helper()
	for tries := 0; q.real || tries < 1000; tries++ {
		for _, id := range slices.Sorted(maps.Keys(q.nodes)) {
			if id == except {
				continue
			}
			select {
			case lead, ok := <-q.nodes[id].Leaderships():
				if ok && !lead.ended() {
					return id, lead
				}
			default:
			}
		}
		advance(10 * time.Millisecond)
	}
	q.t.Fatal("nobody leads")
	return "", nil
}

// advance lets virtual time pass.
func advance(d time.Duration) { <-time.After(d) }

// commit proposes and awaits the outcome.
func commit(lead *Leadership, command registry.Command) (registry.Result, error) {
	type outcome struct {
		result registry.Result
		err    error
	}
	done := make(chan outcome, 1)
	if lead.Propose(Proposal{command, func(r registry.Result, err error) { done <- outcome{r, err} }}) == 0 {
		return registry.Result{}, errors.New("the queue is full")
	}
	got := <-done
	return got.result, got.err
}

func admit(client string, counter uint64) registry.Command {
	return registry.Command{
		Client: client, Counter: counter, At: time.Unix(int64(counter), 0),
		Change: registry.AdmitAgent{Nonce: api.Nonce(fmt.Sprintf("%s-%d", client, counter))},
	}
}

// agree awaits that all masters have applied the same.
func (q *cluster) agree() string {
	q.t.Helper()
	var seen map[string]bool
	for tries := 0; q.real || tries < 1000; tries++ {
		seen = map[string]bool{}
		for _, n := range q.nodes {
			seen[fmt.Sprint(n.Registry().Index, " ", registrycodec.Hash(n.Registry()))] = true
		}
		if len(seen) == 1 {
			return slices.Collect(maps.Keys(seen))[0]
		}
		advance(10 * time.Millisecond)
	}
	q.t.Fatalf("masters do not agree: %v", seen)
	return ""
}

func TestFailover(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQuorum(t, n)
				defer q.stopAll()
				id, lead := q.leader("")
				if lead.State.Cluster == "" || lead.State.Cluster != q.nodes[id].Cluster() {
					t.Errorf("the cluster is %q in the registry, %q in the folder", lead.State.Cluster, q.nodes[id].Cluster())
				}
				first, err := commit(lead, admit("a", 1))
				if err != nil || first.Agent != "agent-1" {
					t.Fatalf("committed %+v, %v", first, err)
				}
				memory := q.stop(id)
				if !lead.ended() {
					t.Error("the leadership outlives its master")
				}
				if n == 1 {
					q.start(q.peers[0], memory)
				}
				next, again := q.leader("")
				if again.Term.Compare(lead.Term) <= 0 {
					t.Errorf("term %v follows %v", again.Term, lead.Term)
				}
				if _, ok := again.State.Agents["agent-1"]; !ok {
					t.Errorf("%s does not know what was committed before its gate opened (P2)", next)
				}
				repeat, err := commit(again, admit("a", 1))
				if err != nil || repeat.Agent != "agent-1" || len(q.nodes[next].Registry().Agents) != 1 {
					t.Errorf("a repeated command came to %+v, %v with %d agents (R17)", repeat, err, len(q.nodes[next].Registry().Agents))
				}
				q.agree()
			})
		})
	}
}

// TestDeposedLeaderIsToldNothing: a leader that is cut off hears that outcomes are
// unknown, and its gate is shut before the next one's opens or soon after (P1, P7).
func TestDeposedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, lead := q.leader("")
		addr := q.nodes[id].config.Advertise
		q.mesh.isolate(addr, true)
		_, err := commit(lead, admit("a", 1))
		if kind := api.KindOf(err); kind != api.Unknown && kind != api.NotLeader {
			t.Errorf("a write without a majority came to %v", err)
		}
		<-lead.Done()
		if err := lead.Verify(context.Background()); !api.Is(err, api.NotLeader) {
			t.Errorf("a deposed leader verifies: %v", err)
		}
		next, again := q.leader(id)
		if _, err := commit(again, admit("b", 1)); err != nil {
			t.Fatal(err)
		}
		q.mesh.isolate(addr, false)
		q.agree()
		if leader, _ := q.nodes[id].Members.LeaderInTerm(); leader != next {
			t.Errorf("%s takes %q for the leader, not %s", id, leader, next)
		}
	})
}

// TestCommitsFollowTheState: what a leadership delivers is exactly what follows its
// state: replaying it gives the registry.
func TestCommitsFollowTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		for round := range 5 {
			id, lead := q.leader("")
			for i := range 200 {
				lead.Propose(Proposal{Command: admit(fmt.Sprint("r", round), uint64(i+1))})
			}
			if _, err := commit(lead, admit(fmt.Sprint("r", round), 201)); err != nil {
				t.Fatal(err)
			}
			state, entries := lead.State, 0
			for len(state.Agents) < 201*(round+1) {
				c := <-lead.Commits()
				for _, command := range c.Commands {
					state.Apply(command)
				}
				entries++
			}
			if want := registrycodec.Hash(q.nodes[id].Registry()); registrycodec.Hash(state) != want {
				t.Fatalf("round %d: replaying the commits gives another registry", round)
			}
			if entries > 100 {
				t.Errorf("201 commands made %d entries", entries)
			}
			if err := q.nodes[id].Members.Transfer(context.Background(), ""); err != nil {
				t.Fatal(err)
			}
			<-lead.Done()
		}
		q.agree()
	})
}

// TestLaggard: a master that was away longer than the log reaches is given a snapshot.
func TestLaggard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, lead := q.leader("")
		away := q.peers[0]
		if away.ID == id {
			away = q.peers[1]
		}
		memory := q.stop(away.ID)
		for i := range 50 {
			if _, err := commit(lead, admit("a", uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		config := q.nodes[id].engine.running().ReloadableConfig()
		config.TrailingLogs = 1
		if err := q.nodes[id].engine.running().ReloadConfig(config); err != nil {
			t.Fatal(err)
		}
		if err := q.nodes[id].engine.running().snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		back := q.start(away, memory)
		q.agree()
		if n := len(back.Registry().Agents); n != 50 {
			t.Errorf("it has %d agents", n)
		}
	})
}

// TestCoreMayGiveUp: a leadership that its core ends is followed by one of another
// term, also when there is no other master (R18).
func TestCoreMayGiveUp(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQuorum(t, n)
				defer q.stopAll()
				term := api.Term{}
				for range 4 {
					_, lead := q.leader("")
					if lead.Term.Compare(term) <= 0 {
						t.Fatalf("term %v after %v", lead.Term, term)
					}
					term = lead.Term
					lead.End("broken invariant")
					<-lead.Done()
				}
			})
		})
	}
}

func TestChangingTheQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 1)
		defer q.stopAll()
		_, lead := q.leader("")
		for i := range 100 {
			if _, err := commit(lead, admit("a", uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		first := q.nodes["m1"]
		for i := 2; i <= 3; i++ {
			peer := Peer{ID: api.MasterID(fmt.Sprint("m", i)), Addr: fmt.Sprint("host", i, ":5070")}
			if err := first.Members.Add(context.Background(), peer); !api.Is(err, api.Unavailable) {
				t.Errorf("a master that is not there was added: %v", err)
			}
			q.start(peer, NewMemory()) // knows m1 only, so it joins
			if err := first.Members.Add(context.Background(), peer); err != nil {
				t.Fatal(err)
			}
		}
		q.agree()
		if members := first.Members.Status().Members; len(members) != 3 || members[2].Role != "voter" {
			t.Fatalf("members: %+v", members)
		}
		if err := first.Members.Transfer(context.Background(), "m3"); err != nil {
			t.Fatal(err)
		}
		id, lead := q.leader("")
		if id != "m3" {
			t.Errorf("%s leads", id)
		}
		if _, err := q.nodes["m3"].Members.Remove(context.Background(), Removal{ID: "m1"}); err != nil {
			t.Fatal(err)
		}
		if err := <-first.ended; !api.Is(err, api.Removed) {
			t.Errorf("the removed master ended with %v", err)
		}
		delete(q.nodes, "m1")
		if _, err := commit(lead, admit("b", 1)); err != nil {
			t.Fatal(err)
		}
		q.agree()
	})
}

// TestARemovalKeepsAMajority: one of three masters is dead, and the living one beside the leader is to be removed. Of
// the two that would be left only one answers, so it is refused, the leadership goes on, and the dead one can be removed.
// (Protocol rule R50.)
func TestARemovalKeepsAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, lead := q.leader("")
		var others []api.MasterID
		for _, peer := range q.peers {
			if peer.ID != id {
				others = append(others, peer.ID)
			}
		}
		dead, living := others[0], others[1]
		q.stop(dead)
		first := func() error {
			t.Error("what comes before the removal is done though it is refused")
			return nil
		}
		for _, who := range []api.MasterID{living, id} {
			_, err := q.nodes[id].Members.Remove(t.Context(), Removal{ID: who, First: first})
			if !api.Is(err, api.Unavailable) || !strings.Contains(err.Error(), string(dead)) || !strings.Contains(err.Error(), "--force") {
				t.Errorf("the removal of %s came to %v", who, err)
			}
		}
		if _, err := commit(lead, admit("a", 1)); err != nil {
			t.Errorf("the leadership has ended: %v", err)
		}
		if costs, err := q.nodes[id].Members.Remove(t.Context(), Removal{ID: dead}); err != nil || costs != "" {
			t.Errorf("the removal of the dead one came to %v, %q", err, costs)
		}
		// By force it is done, and it is said what that costs.
		q.stop(living)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.nodes[id].Members.Remove(ctx, Removal{ID: id}); !api.Is(err, api.Unavailable) {
			t.Errorf("the leader is removed though the other does not answer: %v", err)
		}
		if _, err := q.nodes[id].Members.Remove(ctx, Removal{ID: id, Force: true}); err == nil || !strings.Contains(err.Error(), "nobody leads until") {
			t.Errorf("a removal by force that can't be committed came to %v", err)
		}
	})
}

// TestAMembershipOutlivesItsLeader: a master that was added or removed stays so, though the leader is lost right behind
// its answer (R53).
func TestAMembershipOutlivesItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		fourth := Peer{ID: "m4", Addr: "host4:5070"}
		q.start(fourth, NewMemory())
		id, _ := q.leader(fourth.ID)
		for _, change := range []struct {
			ask   func(*Members) error
			votes bool // the fourth, behind it
		}{
			{func(m *Members) error { return m.Add(t.Context(), fourth) }, true},
			{func(m *Members) error { _, err := m.Remove(t.Context(), Removal{ID: fourth.ID}); return err }, false},
		} {
			if err := change.ask(q.nodes[id].Members); err != nil {
				t.Fatal(err)
			}
			all := append(slices.Clone(q.peers), fourth)
			lost := all[slices.IndexFunc(all, func(p Peer) bool { return p.ID == id })]
			q.mesh.isolate(lost.Addr, true)
			id, _ = q.leader(lost.ID)
			votes := slices.ContainsFunc(q.nodes[id].Members.Status().Members, func(m Member) bool { return m.ID == fourth.ID && m.Role != "non-voter" })
			if votes != change.votes {
				t.Errorf("the next leader counts the vote of the fourth: %v, want %v", votes, change.votes)
			}
			q.mesh.isolate(lost.Addr, false)
			advance(time.Second)
			if q.nodes[fourth.ID] != nil { // it would end as it is removed
				q.stop(fourth.ID)
			}
			if id == fourth.ID {
				id, _ = q.leader(fourth.ID)
			}
		}
	})
}

// TestFoundingOnce: R19.
func TestFoundingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &cluster{t: t, mesh: newMesh(), nodes: map[api.MasterID]*node{}}
		for i := range 3 {
			q.peers = append(q.peers, Peer{ID: api.MasterID(fmt.Sprint("m", i+1)), Addr: fmt.Sprint("host", i+1, ":5070")})
		}
		q.start(q.peers[0], NewMemory())
		q.start(q.peers[1], NewMemory())
		advance(time.Minute)
		if q.nodes["m1"].Cluster() != "" {
			t.Error("two of three founded a cluster")
		}
		q.start(q.peers[2], NewMemory())
		q.leader("")
		advance(time.Second)
		cluster := q.nodes["m1"].Cluster()
		if cluster == "" || cluster != q.nodes["m2"].Cluster() || cluster != q.nodes["m3"].Cluster() {
			t.Errorf("clusters %q, %q, %q", cluster, q.nodes["m2"].Cluster(), q.nodes["m3"].Cluster())
		}
		q.stop("m3")
		emptied := q.start(q.peers[2], NewMemory())
		select {
		case err := <-emptied.ended:
			if !api.Is(err, api.Exists) || !strings.Contains(err.Error(), "raft remove m3") || !strings.Contains(err.Error(), "raft add m3") {
				t.Errorf("a voter that lost its data: %v", err)
			}
			delete(q.nodes, "m3")
		case <-time.After(time.Minute):
			t.Error("a voter that lost its data is not refused")
		}
		q.stopAll()
	})
}

// TestKilledWithinTheBootstrap: the library writes a term first and the configuration then. Who was killed between the two begins
// again, alone or with others.
func TestKilledWithinTheBootstrap(t *testing.T) {
	for name, test := range map[string]struct {
		masters int
		killed  []api.MasterID
	}{"one": {1, []api.MasterID{"m1"}}, "one of three": {3, []api.MasterID{"m1"}}, "three": {3, []api.MasterID{"m1", "m2", "m3"}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := builtQuorum(t, test.masters, func(config *Config) {
					if slices.Contains(test.killed, config.ID) {
						if err := config.Memory.logs.SetUint64(currentTerm, 1); err != nil {
							t.Fatal(err)
						}
					}
				})
				q.leader("")
				q.stopAll()
			})
		})
	}
}

// TestARemovedFounderComesBackEmpty: R19. Its own list still names it as a founder; it has
// no vote before it is added.
func TestARemovedFounderComesBackEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, _ := q.leader("")
		leader := q.nodes[id]
		peer := q.peers[slices.IndexFunc(q.peers, func(p Peer) bool { return p.ID != id })]
		if _, err := leader.Members.Remove(context.Background(), Removal{ID: peer.ID}); err != nil {
			t.Fatal(err)
		}
		if err := <-q.nodes[peer.ID].ended; !api.Is(err, api.Removed) {
			t.Errorf("the removed master ended with %v", err)
		}
		back := q.start(peer, NewMemory())
		advance(time.Minute)
		if members := back.Members.Status().Members; len(members) != 0 || back.Cluster() != leader.Cluster() {
			t.Errorf("before it was added it is in a quorum %+v of %s", members, back.Cluster())
		}
		if err := leader.Members.Add(context.Background(), peer); err != nil {
			t.Fatal(err)
		}
		q.agree()
	})
}

func TestFoldersAreChecked(t *testing.T) {
	listener := newMesh().listen("host1:5070")
	memory := NewMemory()
	open := func(change func(*Config)) error {
		config := Config{Memory: memory, ID: "m1", Listener: listener, Logger: zerolog.Nop()}
		change(&config)
		_, err := Open(config)
		return err
	}
	for _, test := range []struct {
		what   string
		change func(*Config)
		kind   api.Kind
		says   string
	}{
		{"new without an ID", func(c *Config) { c.ID = "" }, api.Invalid, "needs an ID"},
		{"two founders", func(c *Config) { c.Peers = []Peer{{ID: "m1", Addr: "a:1"}, {ID: "m2", Addr: "b:1"}} }, api.Invalid, "1, 3 or 5"},
		{"no such profile", func(c *Config) { c.Profile = "slow" }, api.Invalid, "lan, fast and wan"},
		{"good", func(*Config) {}, 0, ""},
		{"no ID needed", func(c *Config) { c.ID = "" }, 0, ""},
		{"somebody else's", func(c *Config) { c.ID = "m2" }, api.Exists, "folder is master m1's"},
		{"from the future", func(c *Config) { memory.settings = []byte(`{"format":99}`) }, api.Unavailable, "format 99"},
	} {
		err := open(test.change)
		if (err == nil) != (test.says == "") || err != nil && (api.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v", test.what, err)
		}
	}
}
