package sim

import (
	"strconv"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
)

// quorum is all masters together: what a majority has committed, and who leads.
type quorum struct {
	world   *World
	state   *registry.State
	term    api.Term
	leader  *leader // nil: nobody leads
	former  *leader // was deposed, and may not know it yet
	policy  string
	config  core.Config
	members []string // names of the masters, any of which may lead
	joined  int      // number of masters so far
	stopped bool     // no majority: nothing is committed
	slow    bool     // each command takes long, and is committed alone
	pending []registry.Command
	busy    bool // a commit is under way
	backup  *registry.State
	saved   api.Term              // term of the leader at that time
	clocks  map[string]*timepiece // of the masters
	// restored says that a snapshot was restored: everything after it is forgotten, including marks and removals.
	restored bool
	// keepsStores says that no snapshot is restored: it would undo what stores have, on which managers of jobs rely.
	keepsStores bool
}

const cluster = "tender"

func newQuorum(w *World) *quorum {
	q := &quorum{world: w, state: registry.New(), policy: "fairshare", members: []string{"m1", "m2", "m3"}, joined: 3, clocks: map[string]*timepiece{}}
	q.state.Apply(registry.Command{Change: registry.Bootstrap{Cluster: cluster}})
	q.config = core.Config{Version: "v1", Debug: true}
	return q
}

// clockOf returns the clocks of a master.
func (q *quorum) clockOf(name string) *timepiece {
	if q.clocks[name] == nil {
		q.clocks[name] = &timepiece{drift: q.world.drawDrift()}
	}
	return q.clocks[name]
}

// setClock sets the wall clock of the leading master, while it leads.
func (q *quorum) setClock() {
	if q.leader != nil {
		q.world.setWallClock(q.leader.clock)
		q.leader.stepCore(core.Woken{})
	}
}

// electLeader makes a new leader from what is committed. Of the former leader's proposals the first few may have been
// committed.
func (q *quorum) electLeader() {
	q.deposeLeader()
	if kept := len(q.pending); kept > 0 {
		q.applyCommands(q.pending[:q.world.random.IntN(kept+1)])
	}
	q.pending = nil
	q.term.Number++
	q.term.Epoch = q.state.Epoch
	policy, err := allocator.Make(q.policy, allocator.Config{})
	if err != nil {
		panic(err)
	}
	name := q.members[int(q.term.Number)%len(q.members)]
	config := q.config
	config.Master = api.MasterID(name)
	config.Client = name + "/" + q.term.String()
	q.leader = newLeader(q.world, name, q.term, q.clockOf(name))
	q.world.tellStory(name, "leads in term %s", q.term)
	q.leader.core = core.New(config, q.state, q.term, policy, q.leader.readClock())
	q.leader.planRound()
}

// addMaster takes a new master into the quorum, by a new name, because a name is never used twice.
func (q *quorum) addMaster() {
	if q.leader == nil || len(q.members) == registry.MastersMax {
		return
	}
	q.joined++
	name := "m" + strconv.Itoa(q.joined)
	q.members = append(q.members, name)
	q.world.tellStory(name, "joins the quorum")
	q.recordChange(registry.SetMaster{ID: api.MasterID(name), Master: registry.Master{GRPC: name + ":4600"}})
}

// removeMaster takes the master that has been there longest out of the quorum; one that leads hands over first.
func (q *quorum) removeMaster() {
	if q.leader == nil || len(q.members) == 1 {
		return
	}
	name := q.members[0]
	q.members = q.members[1:]
	if q.leader.name == name {
		q.electLeader()
	}
	q.world.tellStory(name, "leaves the quorum")
	q.recordChange(registry.RemoveMaster{ID: api.MasterID(name)})
}

// recordChange has the leader's shell propose what its core does not decide.
func (q *quorum) recordChange(change registry.Change) {
	q.proposeCommand(q.leader, registry.Command{At: q.leader.readClock().Round(0), Change: change})
}

// findAnswering returns the leader that somebody reaches who looks for it: mostly the present one, while another still
// believes that it leads. nil: nobody leads.
func (q *quorum) findAnswering() *leader {
	if q.former != nil && (q.leader == nil || q.world.drawChance(4)) {
		return q.former
	}
	return q.leader
}

// deposeLeader lets the leader go on for a while without knowing that it no longer leads.
func (q *quorum) deposeLeader() {
	if q.leader == nil {
		return
	}
	if q.former != nil {
		q.former.endTerm()
	}
	former := q.leader
	q.former, q.leader = former, nil
	q.world.tellStory(former.name, "is deposed")
	q.world.planIn(q.world.drawBetween(0, 3*time.Second), former.endTerm)
}

// crashLeader ends the leader at once.
func (q *quorum) crashLeader() {
	if q.leader != nil {
		q.world.tellStory(q.leader.name, "crashes")
		q.leader.endTerm()
		q.leader = nil
	}
}

// proposeCommand proposes a leader's command to the majority.
func (q *quorum) proposeCommand(from *leader, command registry.Command) {
	if from != q.leader {
		return // it can't reach a majority, and nobody will ever know
	}
	q.world.truth.decided.looks.proposed(command)
	q.pending = append(q.pending, command)
	q.commitSoon()
}

func (q *quorum) commitSoon() {
	if q.busy || q.stopped || len(q.pending) == 0 {
		return
	}
	q.busy = true
	pause := q.world.drawPause()
	if q.slow {
		pause = q.world.drawBetween(100*time.Millisecond, 3*time.Second)
	}
	q.world.planIn(pause, func() {
		q.busy = false
		if q.stopped || q.leader == nil || len(q.pending) == 0 {
			return
		}
		commands := q.pending
		q.pending = nil
		if q.slow { // one by one
			q.pending = commands[1:]
			commands = commands[:1]
			defer q.commitSoon()
		}
		q.applyCommands(commands)
		q.leader.stepCore(core.Committed{Index: q.state.Index, Commands: commands})
	})
}

func (q *quorum) applyCommands(commands []registry.Command) {
	q.state.Index++
	for _, command := range commands {
		result := q.world.truth.checkCommand(q.state, command)
		if q.world.story != nil {
			q.world.tellStory("quorum", "commits %T: %v", command.Change, describeResult(result))
		}
	}
}

func describeResult(r registry.Result) string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return string(r.Agent) + string(r.Framework)
}

// stopCommits takes the majority away; resumeCommits brings it back.
func (q *quorum) stopCommits() { q.stopped = true }

func (q *quorum) resumeCommits() {
	q.stopped = false
	q.commitSoon()
}

// saveSnapshot takes a snapshot. restoreSnapshot sets the cluster back to it, in the next epoch and in terms that begin at the seconds
// since 1970 (R1). The same snapshot may be restored again.
func (q *quorum) saveSnapshot() { q.backup, q.saved = q.state.Clone(), q.term }

func (q *quorum) restoreSnapshot() {
	begins := uint64(q.world.now.Unix())
	if q.backup == nil || q.keepsStores || q.term.Number >= begins { // nobody restores again within seconds
		return
	}
	q.crashLeader()
	if q.former != nil {
		q.former.endTerm()
	}
	q.pending = nil
	q.state = q.backup.Clone()
	epoch := q.state.Epoch + 1
	q.term.Number = max(q.saved.Number, begins)
	q.state.BeginAnew(q.world.now)
	q.state.Apply(registry.Command{Change: registry.RaiseEpoch{Epoch: epoch}})
	q.restored = true
	q.world.truth.forgetKills()
	q.world.tellStory("quorum", "is restored from a snapshot, epoch %d", epoch)
	q.electLeader()
}
