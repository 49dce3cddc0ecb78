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
	// heartbeatDefault is used until the own master tells its interval.
	heartbeatDefault = time.Second
	// askFirst is how long one master may take to answer; then another one is asked. Each further one may take twice as
	// long, at most askLast. All clients of a master that is merely slow ask, and must not keep the others busy.
	askFirst = time.Second
	askLast  = 4 * time.Second
	// pauseFirst is the pause between two questions of which the first was not answered; at least half of it is waited.
	// It doubles up to pauseLast.
	pauseFirst = 200 * time.Millisecond
	pauseLast  = 5 * time.Second
)

// Config says which master to watch and which ones to ask.
type Config struct {
	// Own is the address of the master of this session.
	Own string
	// Masters are the addresses of all known masters; Own may be among them.
	Masters []string
	// Term is the newest term that was known before the session.
	Term api.Term
	// Dial makes a connection, without waiting for it.
	Dial func(address string) (*grpc.ClientConn, error)
}

// Lookout watches one session: call New at its beginning, Heard for each message, and Run beside it.
type Lookout struct {
	config Config

	mu          sync.Mutex
	answered    bool               // the own master has sent something; guarded by mu
	term        api.Term           // guarded by mu
	masters     []string           // guarded by mu
	heartbeat   time.Duration      // guarded by mu
	heardAt     time.Time          // guarded by mu
	endQuestion context.CancelFunc // ends the present question; nil: none is asked; guarded by mu
}

// New makes a Lookout for a session that begins now.
func New(config Config) *Lookout {
	return &Lookout{
		config: config, term: config.Term, masters: config.Masters, heartbeat: heartbeatDefault, heardAt: time.Now(),
	}
}

// Heard notes that the own master has sent something, in this term.
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

// Learn takes over the heartbeat interval and the masters that the own master tells.
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

// Run returns the address of the leader of a newer term, or "" if ctx ends first.
func (l *Lookout) Run(ctx context.Context) (leader string) {
	var turn []string
	patience, rest := askFirst, pauseFirst
	heardAt := time.Time{}
	for l.awaitSilence(ctx) {
		if heard := l.lastHeard(); heard != heardAt { // this is another silence than before
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

// awaitSilence returns true when a heartbeat is late, and false when ctx has ended.
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

// lateAt returns when a heartbeat counts as late. Half an interval is grace, and up to a quarter more is random, so
// that a thousand clients do not ask together. The first message may take longer, because a master that does not know
// yet who leads lets agents wait for a while.
func (l *Lookout) lateAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.answered {
		return l.heardAt.Add(l.heartbeat*9/4 + rand.N(l.heartbeat/4))
	}
	return l.heardAt.Add(l.heartbeat*3/2 + rand.N(l.heartbeat/4))
}

// others returns the masters that may be asked, in random order.
func (l *Lookout) others() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(l.masters), func(address string) bool { return address == l.config.Own || address == "" })
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return others
}

// ask asks a master for a newer leader, and waits for the answer only as long as the own master is silent.
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
		return "" // the next master may know
	}
	if term := wire.TermFromProto(answer.GetTerm()); !after.Before(term) || protocol.FarAhead(after, term) {
		return ""
	}
	return answer.GetGrpcAddress()
}

// begin begins a question, and returns the term after which a leader is news. As long as the own master has not sent
// anything, the leader of the newest known term may be another master than that one.
func (l *Lookout) begin(endQuestion context.CancelFunc) (after api.Term, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	after = l.term
	if !l.answered && after.Number > 0 {
		after.Number--
	}
	l.endQuestion = endQuestion
	return after, time.Since(l.heardAt) >= l.heartbeat // otherwise it has just sent something
}

func (l *Lookout) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endQuestion = nil
}
