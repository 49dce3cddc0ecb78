package quorum

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Succession makes a follower take over from a dead leader without waiting until its silence becomes suspicious. A
// process that has died can be recognized at once: its connections are closed, and its machine refuses new ones. So the
// heartbeat timeout can be long enough for machines that are short of processors. An election that begins for this
// reason is as safe as any other.
//
// The other followers do the same at the same time. A follower that knows of a longer log than its own does not stand,
// because it would only spoil the election of the one with that log. The others stand one after the other, by ID.
type Succession struct {
	phase  phase
	dead   api.MasterID
	tries  int    // tries to reach the dead leader
	term   uint64 // the term in which it was found dead
	others []Member
}

type phase int

const (
	resting   phase = iota
	reaching        // trying to reach the leader whose connection was closed
	comparing       // asking the others for the ends of their logs
	queueing        // waiting until it is our turn
	giving          // giving a faster follower time to win
	meeting         // waiting for those with whom the cluster has just been founded
)

const (
	// refusalTriesMax and refusalPause are needed because a dying process closes its connections a little before its
	// listener, so that the first attempts to connect may not be refused yet.
	refusalTriesMax = 10
	refusalPause    = 20 * time.Millisecond
	// RankPause is the time between the attempts of two followers, so that they do not split the votes.
	RankPause = 300 * time.Millisecond
	// electionPause is how long an election may take before the next follower tries.
	electionPause = 400 * time.Millisecond
)

// View is what our own Raft says at present.
type View struct {
	Self     api.MasterID
	Leader   Peer // the leader that we know; its ID is "" when we know none
	Follower bool // we are a follower
	Term     uint64
	Last     uint64 // index of the last entry of our log
	Members  []Member
}

func (v View) follows(id api.MasterID) bool { return v.Follower && v.Leader.ID == id }

// SuccessionStep says what to do next. No field is set when there is nothing to do. Each step except Stand is answered
// by an event.
type SuccessionStep struct {
	Reach   *Peer         // answered by Reached
	Wait    time.Duration // answered by Waited
	Compare []Member      // answered by Compared
	Meet    []Member      // answered by Met: all of them take part
	Stand   bool          // begin an election in which we are the candidate
}

// The events of a Succession.
type (
	// Left says that the connection of a master was closed.
	Left struct{ Master api.MasterID }
	// Begun says that Raft has just started. Founded says that this run of the process has founded the cluster.
	Begun struct{ Founded bool }
	// Reached is the result of an attempt to connect to the leader. Only a refused connection proves that it is dead;
	// any other failure may be the fault of the network, or ours.
	Reached struct{ Answered, Refused bool }
	// Waited says that the time to wait is over.
	Waited struct{}
	// Compared says where the logs of others end. A master that has not answered is not in it.
	Compared struct{ Last map[api.MasterID]uint64 }
	// Met says whether all of them take part.
	Met struct{ All bool }
)

// Step handles an event, together with what our own Raft says now.
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

// compared continues when our rank among the remaining voters is known.
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
		if view.Term != s.term { // another follower was faster, so it gets time to win
			s.phase = giving
			return SuccessionStep{Wait: electionPause}
		}
		return s.stand(view)
	case giving:
		return s.stand(view)
	case resting, comparing, meeting: // none of these waits
	}
	return s.rest()
}

// stand begins an election, unless another master leads by now.
func (s *Succession) stand(view View) SuccessionStep {
	free := view.Follower && (view.Leader.ID == "" || view.Leader.ID == s.dead)
	s.rest()
	return SuccessionStep{Stand: free}
}

// begun avoids waiting for the silence of a leader that can't exist: when we are the only voter, or the first of those
// that have just founded the cluster, once all of them are there.
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
	if !all { // whoever comes later is waited for as usual
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

// rank returns our place among the remaining voters, by ID. It returns -1 when we do not stand: we have no vote, or
// another log is longer, so that its master might not vote for us. A log whose end is not known counts as long as ours.
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
