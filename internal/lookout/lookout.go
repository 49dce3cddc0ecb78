// Package lookout finds leaders. A Seeker goes from master to master until one leads. A Lookout learns of a new leader
// while the current master is silent. A leader that is stopped or cut off closes no connection, so its clients would
// find out by their session timeout; the other masters know earlier. The Lookout asks one of them as soon as a
// heartbeat is late, and is answered when a leader of a newer term is known: a master that is merely slow is never
// left.
package lookout

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// heartbeatDefault holds until the own master says its interval.
	heartbeatDefault = time.Second
	// askFirst is how long one master may take to know of a new leader; then another one
	// is asked, which may take longer: twice as long each time, askLast at most. All
	// clients of a master that is merely slow ask, and must not keep the others busy.
	askFirst = time.Second
	askLast  = 4 * time.Second
	// pauseFirst is between two questions of which the first was not answered, at least
	// half of it. It grows too.
	pauseFirst = 200 * time.Millisecond
	pauseLast  = 5 * time.Second
)

// Config says whom to watch and whom to ask.
type Config struct {
	// Own is the address of one's own master.
	Own string
	// Masters are the addresses of all that are known, Own among them or not.
	Masters []string
	// Term is the newest that was heard of before the session.
	Term api.Term
	// Dial makes a connection; it does not wait for it.
	Dial func(address string) (*grpc.ClientConn, error)
}

// Lookout watches one session. New, Heard with each message, Run beside it.
type Lookout struct {
	config Config

	mu          sync.Mutex
	answered    bool               // the own master has said something; guarded by mu
	term        api.Term           // guarded by mu
	masters     []string           // guarded by mu
	heartbeat   time.Duration      // guarded by mu
	heardAt     time.Time          // guarded by mu
	endQuestion context.CancelFunc // ends the question; nil: none is asked; guarded by mu
}

// New begins a session now.
func New(config Config) *Lookout {
	return &Lookout{
		config: config, term: config.Term, masters: config.Masters, heartbeat: heartbeatDefault, heardAt: time.Now(),
	}
}

// Heard says that the own master has spoken, in a term.
func (l *Lookout) Heard(term api.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered, l.heardAt = true, time.Now()
	if l.term.Before(term) {
		l.term = term
	}
	if l.endQuestion != nil {
		l.endQuestion()
	}
}

// Learn takes over what the own master says of its heartbeats and of other masters.
func (l *Lookout) Learn(heartbeat time.Duration, masters []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if heartbeat > 0 {
		l.heartbeat = heartbeat
	}
	if len(masters) > 0 {
		l.masters = slices.Clone(masters)
	}
}

// Run returns the address of the leader of a newer term, or "" when ctx ends first.
func (l *Lookout) Run(ctx context.Context) (leader string) {
	var turn []string
	patience, rest := askFirst, pauseFirst
	heardAt := time.Time{}
	for l.awaitSilence(ctx) {
		if heard := l.lastHeard(); heard != heardAt { // another silence than before
			heardAt, patience, rest = heard, askFirst, pauseFirst
		}
		if len(turn) == 0 {
			if turn = l.others(); len(turn) == 0 {
				turn = []string{""}
			}
		}
		if leader := l.ask(ctx, turn[0], patience); leader != "" {
			return leader
		}
		turn = turn[1:]
		pause.For(ctx, rest/2+rand.N(rest/2))
		patience, rest = min(2*patience, askLast), min(2*rest, pauseLast)
	}
	return ""
}

func (l *Lookout) lastHeard() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heardAt
}

// awaitSilence returns when a heartbeat is late; false when ctx has ended.
func (l *Lookout) awaitSilence(ctx context.Context) bool {
	for ctx.Err() == nil {
		late := time.Until(l.lateAt())
		if late <= 0 {
			return true
		}
		pause.For(ctx, late)
	}
	return false
}

// lateAt: half an interval is grace, and up to a quarter keeps a thousand clients apart.
// The first word may take longer: a master that has yet to hear who leads keeps agents
// for a while.
func (l *Lookout) lateAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.answered {
		return l.heardAt.Add(l.heartbeat*9/4 + rand.N(l.heartbeat/4))
	}
	return l.heardAt.Add(l.heartbeat*3/2 + rand.N(l.heartbeat/4))
}

// others are the masters that may be asked, in any order.
func (l *Lookout) others() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(l.masters), func(address string) bool { return address == l.config.Own || address == "" })
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return others
}

// ask asks a master for a newer leader, and waits for the answer as long as our own master is silent.
func (l *Lookout) ask(ctx context.Context, address string, patience time.Duration) (leader string) {
	if address == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	after, ok := l.begin(cancel)
	defer l.end()
	if !ok {
		return ""
	}
	conn, err := l.config.Dial(address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	answer, err := apiv1.NewMasterServiceClient(conn).Leader(ctx, &apiv1.LeaderRequest{After: wire.TermToProto(after)})
	if err != nil || ctx.Err() != nil || answer.GetGrpcAddress() == l.config.Own {
		return "" // the next one may know
	}
	if term := wire.TermFromProto(answer.GetTerm()); !after.Before(term) || protocol.FarAhead(after, term) {
		return ""
	}
	return answer.GetGrpcAddress()
}

// begin starts a question, and says after which term a leader would be news. As long as our own master has not said a
// word, the leader of the newest term that we know may be another one.
func (l *Lookout) begin(endQuestion context.CancelFunc) (after api.Term, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	after = l.term
	if !l.answered && after.Number > 0 {
		after.Number--
	}
	l.endQuestion = endQuestion
	return after, time.Since(l.heardAt) >= l.heartbeat // else it has just spoken
}

func (l *Lookout) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endQuestion = nil
}
