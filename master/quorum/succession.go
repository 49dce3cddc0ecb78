package quorum

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Succession is how a follower follows a leader that is dead, without waiting for silence to become suspicious. A process
// that has died is known at once: its connections are closed, and its machine refuses new ones. So the heartbeat timeout
// can be long enough for machines that are short of processors. An election that begins for this reason is as safe as any
// other.
//
// The other followers do the same at the same time: who hears of a longer log than its own does not stand, as it would
// only spoil the election of that one; the others stand one after the other, by ID.
type Succession struct {
	phase  phase
	dead   api.MasterID
	tries  int    // to reach it
	term   uint64 // in which it was found dead
	others []Member
}

type phase int

const (
	resting   phase = iota
	reaching        // for the leader whose connection was closed
	comparing       // logs
	queueing        // until it is our turn
	giving          // a faster one time to win
	meeting         // those with whom the cluster has just been founded
)

const (
	// refusalTriesMax and refusalPause: a dying process closes its connections a little before its listener, so the first
	// attempts to connect may not be refused yet.
	refusalTriesMax = 10
	refusalPause    = 20 * time.Millisecond
	// RankPause is between two followers' attempts to follow the leader, so that they do not split the votes.
	RankPause = 300 * time.Millisecond
	// electionPause is what an election may take before the next follower tries.
	electionPause = 400 * time.Millisecond
)

// View is what our own Raft says at the moment.
type View struct {
	Self     api.MasterID
	Leader   Peer // that we know; ID "" when we know none
	Follower bool // that is what we are
	Term     uint64
	Last     uint64 // in our log
	Members  []Member
}

func (v View) follows(id api.MasterID) bool { return v.Follower && v.Leader.ID == id }

// SuccessionStep is what to do next; nothing is set when there is nothing to do. Each but Stand is answered by an event.
type SuccessionStep struct {
	Reach   *Peer         // answered by Reached
	Wait    time.Duration // answered by Waited
	Compare []Member      // answered by Compared
	Meet    []Member      // answered by Met: all of them take part
	Stand   bool          // begin an election in which we are the candidate
}

// Succession's events.
type (
	// Left says that the connection of a master was closed.
	Left struct{ Master api.MasterID }
	// Begun says that Raft has just begun; Founded that its cluster has, in this run of the process.
	Begun struct{ Founded bool }
	// Reached says what came of a connection to the leader. Only a refused one is an answer: whatever else goes wrong may
	// be the network's fault, or ours.
	Reached struct{ Answered, Refused bool }
	// Waited says that the time is over.
	Waited struct{}
	// Compared says where the logs of others end; of who does not answer it says nothing.
	Compared struct{ Last map[api.MasterID]uint64 }
	// Met says whether all take part.
	Met struct{ All bool }
)

// Step takes an event, and what our own Raft says meanwhile.
func (s *Succession) Step(view View, event any) SuccessionStep {
	switch e := event.(type) {
	case Left:
		return s.left(view, e.Master)
	case Begun:
		return s.begun(view, e.Founded)
	case Reached:
		return s.reached(view, e)
	case Compared:
		return s.compared(view, e.Last)
	case Met:
		return s.met(view, e.All)
	case Waited:
		return s.waited(view)
	}
	return SuccessionStep{}
}

func (s *Succession) rest() SuccessionStep {
	*s = Succession{}
	return SuccessionStep{}
}

func (s *Succession) left(view View, id api.MasterID) SuccessionStep {
	if !view.follows(id) {
		return s.rest()
	}
	*s = Succession{phase: reaching, dead: id}
	return SuccessionStep{Reach: &view.Leader}
}

func (s *Succession) reached(view View, answer Reached) SuccessionStep {
	switch s.tries++; {
	case answer.Answered || !answer.Refused && s.tries == refusalTriesMax:
		return s.rest()
	case !answer.Refused:
		return SuccessionStep{Wait: refusalPause}
	}
	s.phase, s.term = comparing, view.Term
	if s.others = otherVoters(view, s.dead); len(s.others) == 0 {
		return s.compared(view, nil)
	}
	return SuccessionStep{Compare: s.others}
}

// compared is where our place among the voters that are left is known.
func (s *Succession) compared(view View, last map[api.MasterID]uint64) SuccessionStep {
	turn := rank(view, s.others, last)
	if turn < 0 {
		return s.rest()
	}
	s.phase = queueing
	if turn == 0 {
		return s.waited(view)
	}
	return SuccessionStep{Wait: time.Duration(turn) * RankPause}
}

func (s *Succession) waited(view View) SuccessionStep {
	switch s.phase {
	case reaching:
		if !view.follows(s.dead) {
			return s.rest()
		}
		return SuccessionStep{Reach: &view.Leader}
	case queueing:
		if view.Term != s.term { // somebody was faster: time to win
			s.phase = giving
			return SuccessionStep{Wait: electionPause}
		}
		return s.stand(view)
	case giving:
		return s.stand(view)
	case resting, comparing, meeting: // nobody waits then
	}
	return s.rest()
}

// stand begins an election unless somebody else leads by now.
func (s *Succession) stand(view View) SuccessionStep {
	free := view.Follower && (view.Leader.ID == "" || view.Leader.ID == s.dead)
	s.rest()
	return SuccessionStep{Stand: free}
}

// begun does not wait for the silence of a leader that there can't be: when we are the only voter, or the first of those
// that have just founded the cluster, once all are there.
func (s *Succession) begun(view View, founded bool) SuccessionStep {
	others := otherVoters(view, "")
	switch {
	case rank(view, others, nil) != 0 || len(others) > 0 && !founded:
		return s.rest()
	case len(others) == 0:
		return s.stand(view)
	}
	s.phase = meeting
	return SuccessionStep{Meet: others}
}

func (s *Succession) met(view View, all bool) SuccessionStep {
	if !all { // who comes later is waited for as usual
		return s.rest()
	}
	return s.stand(view)
}

func otherVoters(view View, dead api.MasterID) (others []Member) {
	for _, m := range view.Members {
		if m.Voter && m.ID != view.Self && m.ID != dead {
			others = append(others, m)
		}
	}
	return others
}

// rank is our place among the voters that are left, by ID; -1: we do not stand, because we have no vote, or because
// another one's log is longer: it may not vote for us. Of whom nothing is known the log ends where ours does.
func rank(view View, others []Member, last map[api.MasterID]uint64) int {
	turn := 0
	for _, m := range others {
		end, known := last[m.ID]
		switch {
		case known && end > view.Last:
			return -1
		case (!known || end == view.Last) && m.ID < view.Self:
			turn++
		}
	}
	for _, m := range view.Members {
		if m.ID == view.Self && m.Voter {
			return turn
		}
	}
	return -1
}
