package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// lingerFor is how long a mirror is kept up to date after the last look at it, so that its past has no holes.
	lingerFor = 10 * time.Minute
	// mirrorsMax bounds the mirrors. One more person who may see other things than all those is refused (Limit).
	mirrorsMax = 64
	// wholeWait is how long the first look waits for the state; then it is shown what has come so far, and the rest
	// follows. So is whoever looks while it is being read: many agents and tasks take seconds.
	wholeWait = 150 * time.Millisecond
	// askMax is how long a page waits for an answer about the cluster as a whole, as while nobody leads.
	askMax = 3 * time.Second
)

// mirrors are what this process watches: one mirror for all who may see everything, and one for each other person.
type mirrors struct {
	mu   sync.Mutex
	by   map[string]*mirror // guarded by mu; by what its people may see
	keys map[string]string  // guarded by mu; by the name of a person: the key of the mirror at which they looked last
}

// mirror is the cluster as some may see it, kept as it is by one watch.
type mirror struct {
	began   time.Time
	changes signal
	end     context.CancelFunc
	users   int         // guarded by the mutex of all mirrors, as idle; who looks now
	idle    *time.Timer // ends the mirror

	mu    sync.Mutex              // guards all below
	copy  *client.Copy            // what is shown
	next  *client.Copy            // while the state is told anew; nil: it is not
	tally tally                   // of copy
	used  map[string]*apiv1.Usage // by agent
	shown *copied                 // copy as it was looked at last; nil: it has changed since
	past  past
	err   error     // why there is no watch
	told  time.Time // when the watch has told something last
	// rights, leads and missed count what was told of who may what, of the masters, and how often something was not told.
	rights, leads, missed int
	outline               outline
	failed                failures
}

// outline is what is known of the cluster as a whole.
type outline struct {
	cluster *apiv1.ClusterView
	err     error
	asked   time.Time
	leads   int // as the mirror had counted by then
}

// copied is a mirror at a moment. It is never edited.
type copied struct {
	tasks      func() []*apiv1.TaskView // sorted when somebody asks: there may be very many
	agents     []*apiv1.AgentView
	frameworks []*apiv1.FrameworkView
	offers     []*apiv1.OfferView
	roles      []*apiv1.RoleView
	masters    []*apiv1.MasterView
	principals []*apiv1.PrincipalView
	used       map[string]*apiv1.Usage // by agent
	sums       sums
	whole      bool      // everything has been told
	then       time.Time // the moment that it shows; zero: now
	pieced     []string  // what is to be said of a moment that was pieced together from events
	mean       amounts   // what was really used on average, of such a moment
	err        error     // why nothing is
}

type mirrorKey struct{}

// everything is the key of the mirror of those who may see all that there is.
const everything = "everything"

// look returns the cluster as the request's person may see it, and why it may not be seen.
func look(ctx context.Context) (*copied, error) {
	if one, is := ctx.Value(pastKey{}).(*copied); is {
		return one, one.err
	}
	if m, is := ctx.Value(mirrorKey{}).(*mirror); is {
		one := m.look()
		return one, one.err
	}
	return &copied{tasks: func() []*apiv1.TaskView { return nil }}, nil
}

// mirrored returns the context of a request with the mirror at which its person may look, until leave is called.
func (s *Server) mirrored(ctx context.Context) (_ context.Context, m *mirror, leave func(), err error) {
	key, err := s.mirrorKeyOf(ctx)
	if err != nil {
		return ctx, nil, nil, err
	}
	s.mirrors.mu.Lock()
	defer s.mirrors.mu.Unlock()
	m = s.mirrors.by[key]
	if m == nil {
		if len(s.mirrors.by) >= mirrorsMax {
			return ctx, nil, nil, api.E("page", api.Limit, "", errors.New("too many people with different rights look at the page here; use another master, or 'tender ui'"))
		}
		watched := s.ending // in the name of who serves the page, so that it outlives each of those who share it
		if key != everything {
			watched = context.WithoutCancel(ctx)
		}
		watched, end := context.WithCancel(watched)
		stop := context.AfterFunc(s.ending, end)
		m = &mirror{began: time.Now(), end: end, copy: new(client.Copy), used: make(map[string]*apiv1.Usage)}
		s.mirrors.by[key] = m
		s.watching.Go(func() {
			defer stop()
			m.keep(watched, s, key == everything)
			s.mirrors.mu.Lock()
			defer s.mirrors.mu.Unlock()
			if s.mirrors.by[key] == m {
				delete(s.mirrors.by, key)
			}
		})
	}
	s.mirrors.keys[viewerOf(ctx).Name] = key
	if m.users++; m.idle != nil {
		m.idle.Stop()
	}
	return context.WithValue(ctx, mirrorKey{}, m), m, func() { s.leave(key, m) }, nil
}

// leave is called when somebody looks no more.
func (s *Server) leave(key string, m *mirror) {
	s.mirrors.mu.Lock()
	defer s.mirrors.mu.Unlock()
	if m.users--; m.users > 0 {
		return
	}
	m.idle = time.AfterFunc(lingerFor, func() {
		s.mirrors.mu.Lock()
		defer s.mirrors.mu.Unlock()
		if m.users == 0 && s.mirrors.by[key] == m {
			delete(s.mirrors.by, key)
			m.end()
		}
	})
}

// mirrorKeyOf says what the request's person may see: those with the same key see the same. Nobody is told it. Whoever
// was known goes on while nobody can be asked.
func (s *Server) mirrorKeyOf(ctx context.Context) (string, error) {
	asking, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	name := viewerOf(ctx).Name
	who, err := s.operator.WhoAmI(asking, &apiv1.WhoAmIRequest{})
	if err != nil {
		s.mirrors.mu.Lock()
		defer s.mirrors.mu.Unlock()
		if key := s.mirrors.keys[name]; key != "" && api.Transient(wire.Error(err)) {
			return key, nil
		}
		return "", err
	}
	if who.GetKind() == "anybody" || slices.ContainsFunc(who.GetGrants(), isAdmin) {
		return everything, nil
	}
	return fmt.Sprintf("%q %q %q", who.GetKind(), who.GetName(), grantTexts(who.GetGrants())), nil
}

// isAdmin reports whether who has the grant may see all that there is.
func isAdmin(g *apiv1.PrincipalGrant) bool {
	return g.GetVerb() == "admin" && g.GetRole() == "" && g.GetFramework() == "" && g.GetAgent() == ""
}

// keep watches until the context ends or nobody may watch. What only some may see is not resumed when the watch breaks,
// because their rights may have changed; whoever looks next begins anew.
func (m *mirror) keep(ctx context.Context, s *Server, resumes bool) {
	defer m.end()
	var sampling sync.WaitGroup
	defer sampling.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	sampling.Go(func() {
		for pause.For(ctx, sampleEvery) {
			m.sample(s.config.Clock())
		}
	})
	var stream grpc.ServerStreamingClient[apiv1.WatchResponse]
	var err error
	if resumes {
		var news *apiv1.WatchResponse
		for news, err = range client.WatchOver(ctx, s.config.Cluster, &apiv1.WatchRequest{}) {
			if err == nil {
				m.take(news, s.config.Clock())
			}
		}
	} else if stream, err = apiv1.NewWatchServiceClient(s.config.Cluster).Watch(ctx, &apiv1.WatchRequest{}); err == nil {
		for {
			var news *apiv1.WatchResponse
			if news, err = stream.Recv(); err != nil {
				break
			}
			m.take(news, s.config.Clock())
		}
	}
	m.mu.Lock()
	m.err, m.shown = client.Error(err), nil
	m.mu.Unlock()
	m.changes.tell()
}

// take takes in what the watch tells. While the state is told anew, the one before is shown.
func (m *mirror) take(news *apiv1.WatchResponse, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = now
	if news.GetMissed() != "" {
		m.missed++
	}
	if news.GetMissed() != "" && m.copy.Whole() {
		m.next = new(client.Copy)
	}
	if m.next != nil {
		if m.next.Take(news); m.next.Whole() {
			m.replaced(m.copy, m.next, now)
			m.copy, m.next = m.next, nil
			m.tally, m.used = tally{}, make(map[string]*apiv1.Usage)
			for change := range m.copy.All() {
				m.turn(change)
			}
		}
	} else {
		if news.GetMissed() != "" {
			m.tally, m.used = tally{}, make(map[string]*apiv1.Usage)
		}
		for _, change := range news.GetItems() {
			if kind, name := wire.ChangeName(change); kind != "" {
				m.past.note(undo{now, kind, name, m.copy.Get(kind, name)})
			}
			m.past.mark(change.GetEvent())
			m.turn(change)
		}
		if m.copy.Take(news); m.past.since.IsZero() && m.copy.Whole() {
			m.past.since = now
		}
	}
	if m.next == nil {
		m.shown = nil
		m.changes.tell()
	}
}

// turn has the sums follow a change.
func (m *mirror) turn(change *apiv1.Change) {
	kind, name := wire.ChangeName(change)
	switch cmp.Or(change.GetEvent().GetKind(), kind) {
	case "principal":
		m.rights++
	case "master", "election":
		m.leads++
	}
	m.tally.turn(kind, name, change)
	if agent := change.GetAgent(); agent != nil {
		m.used[name] = agent.GetUsage()
	} else if kind == "agent" {
		delete(m.used, name)
	}
}

// look returns the mirror as it is.
func (m *mirror) look() *copied {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shown == nil {
		m.shown = &copied{
			agents: m.copy.Agents(), frameworks: m.copy.Frameworks(), tasks: sync.OnceValue(m.copy.Tasks), offers: m.copy.Offers(), roles: m.copy.Roles(),
			masters: m.copy.Masters(), principals: m.copy.Principals(), used: maps.Clone(m.used), sums: m.tally.sums(), whole: m.copy.Whole(), err: m.err,
		}
	}
	return m.shown
}

// taskOf returns a task as it was told last, by FRAMEWORK/TASK; nil: it has ended, or was not told.
func (m *mirror) taskOf(name string) *apiv1.TaskView {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.copy.Get("task", name).GetTask()
}

// trusted returns the number of changes of who may what so far; false when the mirror has ended.
func (m *mirror) trusted() (int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rights, m.err == nil
}

// await waits for the first state until a while after the watch has begun. A view that gets no patches is worth a longer one.
func (m *mirror) await(ctx context.Context, still bool) {
	most := wholeWait
	if still {
		most = askMax
	}
	ctx, cancel := context.WithDeadline(ctx, m.began.Add(most))
	defer cancel()
	for {
		_, changed := m.changes.now()
		m.mu.Lock()
		begun := m.copy.Whole() || m.err != nil
		m.mu.Unlock()
		if begun {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
