package raftlog

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// onDisk starts a master in a folder. Real time: bbolt's locks and files do not know
// virtual time.
func (q *cluster) onDisk(peer Peer, dir string) *node {
	q.t.Helper()
	q.real = true
	if err := os.MkdirAll(dir, 0o700); err != nil {
		q.t.Fatal(err)
	}
	log, err := Open(Config{
		Dir: dir, ID: peer.ID, Peers: q.peers, Listener: q.mesh.listen(peer.Addr), Dial: q.mesh.dialer(peer.Addr),
		Advertise: peer.Addr, Profile: ProfileLAN, Logger: zerolog.Nop(),
	})
	if err != nil {
		q.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{Log: log, stop: cancel, ended: make(chan error, 1)}
	q.nodes[peer.ID] = n
	go func() { n.ended <- log.Run(ctx) }()
	return n
}

// diskQuorum is masters m1 to mN in folders below dir.
func diskQuorum(t *testing.T, n int, dir string) *cluster {
	q := &cluster{t: t, mesh: newMesh(), nodes: map[api.MasterID]*node{}}
	for i := range n {
		q.peers = append(q.peers, Peer{ID: api.MasterID(fmt.Sprint("m", i+1)), Addr: fmt.Sprint("host", i+1, ":5070")})
	}
	for _, peer := range q.peers {
		q.onDisk(peer, filepath.Join(dir, string(peer.ID)))
	}
	return q
}

// commit proposes as clients do: on a machine that is short of processors a leadership may
// end at any moment; then the next leader gets the same command, and applies it once.
func (q *cluster) commit(commands ...registry.Command) {
	q.t.Helper()
	var lead *Leadership
	for len(commands) > 0 {
		if lead == nil {
			_, lead = q.leader("")
		}
		switch _, err := commit(lead, commands[0]); {
		case err == nil:
			commands = commands[1:]
		case api.Is(err, api.NotLeader) || api.Is(err, api.Unknown):
			lead = nil
		default:
			q.t.Fatal(err)
		}
	}
}

// add joins a peer as operators do: again, until it has a vote.
func (q *cluster) add(to *node, peer Peer) {
	q.t.Helper()
	votes := func(m Member) bool { return m.ID == peer.ID && m.Role != "non-voter" }
	for !slices.ContainsFunc(to.Members.Status().Members, votes) {
		err := to.Members.Add(q.t.Context(), peer)
		starting, deposed := api.Is(err, api.Unavailable), api.Is(err, api.NotLeader) || api.Is(err, api.Unknown)
		if err != nil && !starting && !deposed {
			q.t.Fatal(err)
		}
		advance(10 * time.Millisecond)
	}
}

// TestRestore: a snapshot makes a quorum of one with the same registry in a higher epoch.
func TestRestore(t *testing.T) {
	dir := t.TempDir()
	q := diskQuorum(t, 1, dir)
	_, lead := q.leader("")
	for i := range 20 {
		if _, err := commit(lead, admit("a", uint64(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	var saved bytes.Buffer
	if err := q.nodes["m1"].Snapshots.Write(&saved); err != nil {
		t.Fatal(err)
	}
	before := q.nodes["m1"].Registry()
	q.stopAll()

	fresh := filepath.Join(dir, "fresh")
	self := Peer{ID: "m7", Addr: "host7:5070"}
	for what, err := range map[string]error{
		"damaged":  restoreError(fresh+"-1", self, bytes.Replace(saved.Bytes(), []byte("agent-7"), []byte("agent-8"), 1)),
		"cut":      restoreError(fresh+"-2", self, saved.Bytes()[:saved.Len()-1]),
		"in use":   restoreError(filepath.Join(dir, "m1"), self, saved.Bytes()),
		"anything": restoreError(fresh+"-3", self, []byte("hello")),
	} {
		if err == nil {
			t.Errorf("%s: restored", what)
		}
	}
	state, err := Restore(fresh, self, bytes.NewReader(saved.Bytes()))
	if err != nil || len(state.Agents) != len(before.Agents) || state.NextAgent <= before.NextAgent {
		t.Fatalf("restored %v, %d agents, the next is %d", err, len(state.Agents), state.NextAgent)
	}
	again := &cluster{t: t, mesh: newMesh(), nodes: map[api.MasterID]*node{}}
	restored := again.onDisk(self, fresh)
	_, lead2 := again.leader("")
	if lead2.Term.Compare(lead.Term) <= 0 || lead2.Term.Epoch != before.Epoch+1 {
		t.Errorf("term %v follows %v", lead2.Term, lead.Term)
	}
	if _, err := commit(lead2, admit("b", 1)); err != nil {
		t.Fatal(err)
	}
	if known := before.Agents; len(known) != 20 || known[api.AgentID("agent-21")].Nonce != "" || restored.Registry().Agents["agent-21"].Nonce != "" {
		t.Error("the restored registry mints numbers that were given out behind its snapshot (R37)")
	}
	if n := len(restored.Registry().Agents); n != 21 || restored.Registry().Cluster != before.Cluster {
		t.Errorf("%d agents of %s", n, restored.Registry().Cluster)
	}
	again.stopAll()
	moved := again.onDisk(Peer{ID: "m7", Addr: "elsewhere:5070"}, fresh)
	if _, lead3 := again.leader(""); lead3.Term.Epoch != lead2.Term.Epoch || lead3.Term.Compare(lead2.Term) <= 0 {
		t.Errorf("after a restart: term %v", lead3.Term)
	}
	if members := moved.Members.Status().Members; len(members) != 1 || members[0].Addr != "elsewhere:5070" {
		t.Errorf("after a move: %+v", members)
	}
	again.stopAll()
}

func restoreError(dir string, self Peer, data []byte) error {
	_, err := Restore(dir, self, bytes.NewReader(data))
	return err
}

// TestRecover: one of three is left; it leads alone with all it had, in a higher epoch,
// and a new master joins it. One of the lost that comes back is not let in.
func TestRecover(t *testing.T) {
	dir := t.TempDir()
	q := diskQuorum(t, 3, dir)
	var commands []registry.Command
	for i := range 20 {
		commands = append(commands, admit("a", uint64(i+1)))
	}
	q.commit(commands...)
	q.agree()
	want := q.nodes["m1"].Registry()
	q.stopAll()

	home := filepath.Join(dir, "m1")
	if _, err := Survey(filepath.Join(dir, "nobody")); !api.Is(err, api.NotFound) {
		t.Errorf("surveyed nothing: %v", err)
	}
	found, err := Survey(home)
	if err != nil || len(found.Members) != 3 || found.Last < want.Index || found.Cluster != want.Cluster {
		t.Fatalf("surveyed %+v, %v", found, err)
	}
	for range 2 { // twice is once more, in a higher epoch
		if _, err := Recover(home, ""); err != nil {
			t.Fatal(err)
		}
	}
	alone := &cluster{t: t, mesh: q.mesh, nodes: map[api.MasterID]*node{}}
	m1 := alone.onDisk(Peer{ID: "m1", Addr: "host1:5070"}, home)
	_, lead2 := alone.leader("")
	if lead2.Term.Epoch != want.Epoch+2 || len(lead2.State.Agents) != 20 {
		t.Errorf("term %v with %d agents", lead2.Term, len(lead2.State.Agents))
	}
	if _, err := commit(lead2, admit("b", 1)); err != nil {
		t.Fatal(err)
	}
	if m1.Registry().Agents["agent-21"].Nonce != "" {
		t.Error("the recovered registry mints numbers that the lost majority may have given out (R37)")
	}
	alone.peers = []Peer{{ID: "m1", Addr: "host1:5070"}}
	joined := alone.onDisk(Peer{ID: "m4", Addr: "host4:5070"}, filepath.Join(dir, "m4"))
	alone.add(m1, Peer{ID: "m4", Addr: "host4:5070"})
	alone.agree()
	if n := len(joined.Registry().Agents); n != 21 {
		t.Errorf("m4 has %d agents", n)
	}
	ghost := alone.onDisk(Peer{ID: "m2", Addr: "host2:5070"}, filepath.Join(dir, "m2"))
	if err := <-ghost.ended; !api.Is(err, api.Removed) || !strings.Contains(err.Error(), "removed") {
		t.Errorf("a lost master that came back ended with %v", err)
	}
	delete(alone.nodes, "m2")
	alone.stopAll()
}

// TestTwoOfOneSnapshot: R1. Two quorums that were made from the same snapshot, or from two survivors of one quorum,
// name the same epoch, because neither knows of the other. Every term of the later one is higher than those of the
// earlier one, so nobody obeys both.
func TestTwoOfOneSnapshot(t *testing.T) {
	dir := t.TempDir()
	q := diskQuorum(t, 3, dir)
	q.commit(admit("a", 1))
	q.agree()
	var saved bytes.Buffer
	if err := q.nodes["m1"].Snapshots.Write(&saved); err != nil {
		t.Fatal(err)
	}
	q.stopAll()

	var terms []api.Term
	first := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	for i := range 2 {
		home := filepath.Join(dir, fmt.Sprint("restored", i))
		if _, err := restore(home, Peer{ID: "m7", Addr: "host7:5070"}, bytes.NewReader(saved.Bytes()), first.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
		terms = append(terms, firstTerm(t, home))
	}
	for i := range 2 {
		home := filepath.Join(dir, fmt.Sprint("m", i+1))
		if _, err := recoverAt(home, "", first.Add(time.Duration(2+i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
		terms = append(terms, firstTerm(t, home))
	}
	const elections = 59
	for i, term := range terms[1:] {
		before := terms[i]
		before.Number += elections
		if !before.Before(term) {
			t.Errorf("the terms from %s on are those of a quorum that began with %s a minute before", term, terms[i])
		}
	}
}

// firstTerm is the one that the next election passes.
func firstTerm(t *testing.T, home string) api.Term {
	t.Helper()
	found, err := Survey(home)
	if err != nil {
		t.Fatal(err)
	}
	return api.Term{Epoch: found.Epoch, Number: found.Term}
}

// TestRecoveredIsNotOverruled: the two masters that were lost are started again together. They are a majority of the
// quorum that they know, and the recovered master is a member of it. They end, and the recovered one continues.
func TestRecoveredIsNotOverruled(t *testing.T) {
	dir := t.TempDir()
	q := diskQuorum(t, 3, dir)
	q.commit(admit("a", 1), admit("b", 2))
	q.agree()
	q.stopAll()
	if _, err := Recover(filepath.Join(dir, "m1"), ""); err != nil {
		t.Fatal(err)
	}
	alone := &cluster{t: t, mesh: q.mesh, nodes: map[api.MasterID]*node{}}
	m1 := alone.onDisk(Peer{ID: "m1", Addr: "host1:5070"}, filepath.Join(dir, "m1"))
	_, lead := alone.leader("")
	if _, err := commit(lead, admit("c", 3)); err != nil {
		t.Fatal(err)
	}
	lost := []*node{alone.onDisk(q.peers[1], filepath.Join(dir, "m2")), alone.onDisk(q.peers[2], filepath.Join(dir, "m3"))}
	for i, ghost := range lost {
		if err := <-ghost.ended; !api.Is(err, api.Removed) || !strings.Contains(err.Error(), "removed from the quorum") {
			t.Errorf("m%d, which was lost, ended with %v", i+2, err)
		}
	}
	delete(alone.nodes, "m2")
	delete(alone.nodes, "m3")
	if _, err := commit(lead, admit("d", 4)); err != nil {
		t.Errorf("the recovered master led in term %v; now: %v", lead.Term, err)
	}
	if status := m1.Members.Status(); status.State != "leader" || status.Term != lead.Term.Number || len(status.Members) != 1 {
		t.Errorf("the recovered master is %+v", status)
	}
	// Nor is one of them taken in again with its folder.
	past := newNetwork(Config{Dial: q.mesh.dialer("host2:5070"), Listener: q.mesh.listen("host2:5070"), Advertise: "host2:5070"},
		func() quorum.About { return quorum.About{ID: "m2", Cluster: m1.Cluster(), Last: 7} }, func(api.MasterID) {})
	past.start()
	if _, err := m1.Members.checkNewPeer(t.Context(), m1.engine.running(), q.peers[1]); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "empty it first") {
		t.Errorf("a folder of the past is taken in: %v", err)
	}
	past.close()
	alone.stopAll()
}

// TestAnOldFolderIsNoMember: after a restore the masters join under the IDs that they had before, with new folders. An
// old folder that is started by mistake is none of them, though its ID is: with it nobody leads, no change that the
// others have answered is lost, and it is told to end. (Protocol rule R51.)
func TestAnOldFolderIsNoMember(t *testing.T) {
	dir := t.TempDir()
	old := diskQuorum(t, 3, dir)
	old.commit(admit("a", 1))
	old.agree()
	var saved bytes.Buffer
	if err := old.nodes["m1"].Snapshots.Write(&saved); err != nil {
		t.Fatal(err)
	}
	old.stopAll()

	folder := func(id api.MasterID) string { return filepath.Join(dir, "new", string(id)) }
	if _, err := Restore(folder("m1"), old.peers[0], &saved); err != nil {
		t.Fatal(err)
	}
	q := &cluster{t: t, mesh: old.mesh, nodes: map[api.MasterID]*node{}}
	q.onDisk(old.peers[0], folder("m1"))
	id, lead := q.leader("")
	q.peers = old.peers[:1]
	for _, peer := range old.peers[1:] {
		q.onDisk(peer, folder(peer.ID))
		if err := q.nodes[id].Members.Add(t.Context(), peer); err != nil {
			t.Fatal(err)
		}
	}
	q.agree()
	q.stop("m2")
	if _, err := commit(lead, admit("precious", 1)); err != nil {
		t.Fatal(err)
	}
	q.stop("m3")
	q.stop("m1")

	m2 := q.onDisk(old.peers[1], folder("m2"))
	ghost := q.onDisk(old.peers[2], filepath.Join(dir, "m3"))
	leads := ghost.Leaderships()
	for ended := false; !ended; {
		select {
		case err := <-ghost.ended:
			if ended = true; !api.Is(err, api.Removed) || !strings.Contains(err.Error(), "empty its folder") {
				t.Errorf("the old folder ended with %v", err)
			}
		case <-m2.Leaderships():
			t.Fatal("a master leads by the vote of an old folder")
		case _, is := <-leads:
			if leads = nil; is { // it is closed when the master ends
				t.Fatal("an old folder leads")
			}
		}
	}
	delete(q.nodes, "m3")
	q.onDisk(old.peers[0], folder("m1"))
	_, lead = q.leader("")
	if _, err := commit(lead, admit("b", 1)); err != nil {
		t.Fatal(err)
	}
	q.agree()
	if _, kept := m2.Registry().AgentOf("precious-1"); !kept {
		t.Error("a change that was answered is lost")
	}
	q.stopAll()
}
