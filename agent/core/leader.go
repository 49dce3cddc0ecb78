package core

import (
	"cmp"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// leader is the room of the stream to the master that leads, or seems to. It greets the master, decides which of its
// messages count (R1, R2), and which of them wait for the disk before they are obeyed. It never carries out an event:
// Core.obeyBatch does.
type leader struct {
	*base
	leaderStream
	// interval is that of heartbeats and timeout that of the session, as the last leader has set them.
	interval time.Duration
	timeout  time.Duration
	// left is the stream that was left because its term was over or it belonged to another cluster. A removal of this
	// agent that such a stream ends with does not count either.
	left Conn
}

// leaderStream is the state that is dropped when the stream ends.
type leaderStream struct {
	conn    Conn // 0 = none
	session uint64
	// registered says that the session is adopted. It holds from just before the report is sent until the stream ends.
	registered bool
	heard      time.Time
	unable     string // why nothing can be started, as the leader was told last
	// held are batches that wait until the newer term, or the identity, is on disk.
	held   []protocol.AgentEvents
	window window
}

// window bounds the statuses that are sent and not acknowledged in one session, so that an agent that comes back does
// not flood its leader (R4).
type window struct {
	tasks   int           // the number of tasks whose statuses are under way
	bytes   int           // the size of those statuses
	backlog []api.TaskRef // tasks that have a status to send, or to send again, when there is room
}

const (
	// heldBatchesMax: if more batches than that wait because the disk stalls, the stream is closed.
	heldBatchesMax = 1024
	// flyingMax is the number of tasks whose statuses may be under way at once. The others wait for acknowledgements.
	flyingMax = 8192
	// flyingBytesMax bounds the bytes of those statuses. The last task that is let in may exceed it. It is well below
	// what the shell queues for a leader, so a leader that reads gets the statuses of a session whatever their size
	// (R34).
	flyingBytesMax = 16 << 20
)

// full says whether statuses of further tasks have to wait.
func (w *window) full() bool { return w.tasks >= flyingMax || w.bytes >= flyingBytesMax }

// wait lets a task's statuses wait until there is room.
func (w *window) wait(task api.TaskRef) { w.backlog = append(w.backlog, task) }

// fill counts statuses that were sent; first says that none of the task's were under way.
func (w *window) fill(bytes int, first bool) {
	w.bytes += bytes
	if first {
		w.tasks++
	}
}

// empty counts a task none of whose statuses, of that size, is under way any more.
func (w *window) empty(bytes int) { w.tasks, w.bytes = w.tasks-1, w.bytes-bytes }

// next takes out the task that has waited for longest, if there is room for it.
func (w *window) next() (task api.TaskRef, waits bool) {
	if len(w.backlog) == 0 || w.full() {
		return task, false
	}
	task, w.backlog = w.backlog[0], w.backlog[1:]
	return task, true
}

// register begins the session: from now on the leader is told what happens here.
func (l *leader) register() { l.registered = true }

// beats takes over how often the leader wants heartbeats, and after what silence a session is over; 0: as before.
func (l *leader) beats(interval, timeout time.Duration) {
	l.interval, l.timeout = cmp.Or(max(interval, 0), l.interval), cmp.Or(max(timeout, 0), l.timeout)
}

// heartbeat sends what is used, and why nothing can be started.
func (l *leader) heartbeat(usage protocol.UsageReport, unable string) {
	l.unable = unable
	l.tell(protocol.AgentHeartbeat{Usage: usage, Unable: unable})
}

// excuse forgives the leader a silence during which this process did not run.
func (l *leader) excuse(gap time.Duration) { l.heard = l.heard.Add(gap) }

// forget drops the state of a stream that has ended, if it is the present one.
func (l *leader) forget(conn Conn) {
	if l.conn == conn {
		l.leaderStream = leaderStream{}
	}
}

// leaderOpened greets the master on a new stream: with Register as long as the agent has no ID, else with Reregister.
func (l *leader) leaderOpened(w LeaderOpened) {
	if l.conn != 0 {
		l.emit(CloseLeader{l.conn, "a newer stream was opened"})
	}
	l.leaderStream = leaderStream{conn: w.Conn, heard: l.now}
	l.wakeIn(l.timeout, timer{kind: timerSession, conn: w.Conn})
	if !l.mustWait(l.disk.identity, greetLeader{w.Conn}) { // the nonce is fsynced before the first contact (R7)
		l.greet(w.Conn)
	}
}

// greet sends the first message on a stream, Register or Reregister.
func (l *leader) greet(conn Conn) {
	who := l.state.identity
	if l.conn != conn || who.Gone {
		return
	}
	agent := l.config.Agent
	agent.ID = who.Agent
	if who.Agent == "" {
		l.emit(ToLeader{conn, protocol.RegisterAgent{
			Cluster: who.Cluster, Version: l.config.Version, Agent: agent, Nonce: who.Nonce, BootID: who.BootID,
		}})
		return
	}
	l.emit(ToLeader{conn, protocol.ReregisterAgent{
		Cluster: who.Cluster, Term: who.Term, Version: l.config.Version, Agent: agent, Nonce: who.Nonce, BootID: who.BootID,
	}})
}

// leave closes the stream; the shell looks for the leader again.
func (l *leader) leave(why string) {
	l.emit(CloseLeader{l.conn, why})
	l.log("leader left", field("why", why))
	l.leaderStream = leaderStream{}
}

// leaveForever closes the stream to a master that does not lead this agent, and remembers that stream as left.
func (l *leader) leaveForever(why string) {
	l.left = l.conn
	l.leave(why)
}

// admit judges a batch by its term before anything in it is obeyed (R1). It reports true if the batch is to be obeyed
// now. A batch that has to wait for the disk is held.
func (l *leader) admit(w LeaderSaid) bool {
	if w.Conn != l.conn {
		return false
	}
	l.heard = l.now
	who := l.state.identity
	switch {
	case !l.registered && len(l.held) == 0 && !l.opens(w.Batch):
		// Another cluster's terms mean nothing here: none of them is stored.
	case w.Batch.Term.Before(who.Term):
		l.leaveForever("term " + w.Batch.Term.String() + " is over; term " + who.Term.String() + " has begun")
	case protocol.FarAhead(who.Term, w.Batch.Term):
		l.leaveForever("term " + w.Batch.Term.String() + " is impossibly far ahead of " + who.Term.String() +
			", the newest that this agent knows: a wrong master?" +
			" If it is right, stop this agent and run tender agent reset-term")
	case len(l.held) >= heldBatchesMax:
		l.leave("the disk is too slow to store the new term")
	case who.Term.Before(w.Batch.Term):
		who.Term = w.Batch.Term
		l.holdBatch(w, l.writeRecord(who))
	case len(l.held) > 0:
		l.held = append(l.held, w.Batch)
	default:
		return true
	}
	return false
}

// opens says whether a stream's first batch may be obeyed. The batch must open a session with this agent's cluster, or
// say that this agent was given up while it was away. The latter names no cluster. But it answers a greeting that names
// one, and a master of another cluster refuses such a greeting.
func (l *leader) opens(batch protocol.AgentEvents) bool {
	if len(batch.Events) > 0 {
		switch first := batch.Events[0].(type) {
		case protocol.AgentRegistered:
			return l.sameCluster(first)
		case protocol.AgentGone:
			return true
		default: // no other event may come first
		}
	}
	l.leave("the master's first event was neither AgentRegistered nor AgentGone")
	return false
}

// holdBatch keeps a batch, and all that follow it, until the record is on disk.
func (l *leader) holdBatch(w LeaderSaid, number uint64) {
	l.held = append(l.held, w.Batch)
	if len(l.held) > 1 {
		return // it is released with the first one, which waits already
	}
	l.follow(number, obeyHeld{w.Conn})
}

// nextHeld takes the next held batch that may be obeyed now. There is none while a term or an ID of an earlier batch is
// not yet on disk.
func (l *leader) nextHeld(conn Conn) (batch protocol.AgentEvents, is bool) {
	if l.conn != conn || len(l.held) == 0 || l.mustWait(l.disk.identity, obeyHeld{conn}) {
		return batch, false
	}
	batch = l.held[0]
	l.held = l.held[1:]
	return batch, true
}

// adopt takes over the session that a batch opens. It reports false if the new identity has to reach the disk first;
// the rest of the batch then waits for that.
func (l *leader) adopt(opening protocol.AgentRegistered, batch, rest protocol.AgentEvents) bool {
	who := l.state.identity
	l.session = batch.Session
	l.beats(opening.HeartbeatInterval, opening.SessionTimeout)
	if who.Cluster == opening.Cluster && who.Agent == opening.Agent {
		return true
	}
	who.Cluster, who.Agent = opening.Cluster, opening.Agent
	number := l.writeRecord(who)
	l.follow(number, openSession{l.conn})
	l.follow(number, obeyHeld{l.conn})
	l.held = append([]protocol.AgentEvents{rest}, l.held...)
	return false
}

// sameCluster refuses a leader of another cluster, and one that gives this agent another ID.
func (l *leader) sameCluster(opening protocol.AgentRegistered) bool {
	who := l.state.identity
	var why string
	switch {
	case who.Cluster != "" && who.Cluster != opening.Cluster:
		why = "this data folder belongs to cluster " + string(who.Cluster) +
			", the master leads cluster " + string(opening.Cluster) +
			"; name the masters of the first, or start with an empty data folder"
	case who.Agent != "" && who.Agent != opening.Agent:
		why = "this agent is " + string(who.Agent) + ", the master takes it for " + string(opening.Agent)
	default:
		return true
	}
	l.leaveForever("wrong cluster or agent")
	l.emit(Stop{api.E("agent.register", api.Denied, opening.Cluster, sentence(why))})
	return false
}

// sentence is an error that consists of its text only.
type sentence string

func (s sentence) Error() string { return string(s) }

// tell sends a call to the leader if there is a session. Without one nothing is lost: the next report tells everything.
func (l *leader) tell(call protocol.AgentCall) {
	if l.registered {
		l.emit(ToLeader{l.conn, call})
	}
}

// sessionDue leaves a leader that has been silent for the session timeout.
func (l *leader) sessionDue(conn Conn) {
	if conn != l.conn {
		return
	}
	if quiet := l.now.Sub(l.heard); quiet < l.timeout {
		l.timers.Add(l.heard.Add(l.timeout), timer{kind: timerSession, conn: conn})
		return
	}
	l.leave("nothing was heard for " + l.timeout.String())
}
