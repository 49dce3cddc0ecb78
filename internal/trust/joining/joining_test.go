package joining_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
)

// signer is a master that gives everybody a certificate as agent a1, unless it is told to answer something else.
type signer struct {
	apiv1.UnimplementedTrustServiceServer
	mu      sync.Mutex
	ca      *trust.Authority // guarded by mu
	refuses error            // guarded by mu
	callers []trust.Identity // the callers of the calls it has answered; guarded by mu
}

func (s *signer) Sign(ctx context.Context, request *apiv1.SignRequest) (*apiv1.SignResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses != nil {
		return nil, wire.Status(s.refuses)
	}
	leaf, err := s.ca.SignRequest(request.GetRequest(), trust.Identity{Kind: trust.Agent, Name: "a1"}, time.Now())
	if err != nil {
		return nil, wire.Status(err)
	}
	s.callers = append(s.callers, transport.CallerOf(ctx))
	answer := &apiv1.SignResponse{Certificate: leaf.Raw}
	for _, anchor := range s.ca.Anchors().List() {
		answer.Roots = append(answer.Roots, anchor.Raw)
	}
	return answer, nil
}

func (s *signer) authority() *trust.Authority {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ca
}

func (s *signer) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = err
}

func (s *signer) answered() []trust.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callers
}

// world is a master at m1:5060, and how to reach it.
type world struct {
	*signer
	key    trust.Key
	config joining.Config
	shows  *trust.Holder // shows the master's certificate
}

// rotate gives the master another authority.
func (w *world) rotate(t *testing.T) *trust.Authority {
	t.Helper()
	fresh, err := trust.NewAuthority(w.key.Cluster())
	if err != nil {
		t.Fatal(err)
	}
	next, err := fresh.After(w.authority(), time.Now(), time.Now().Add(30*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.ca = next
	w.mu.Unlock()
	pass, err := next.Issue(trust.Identity{Kind: trust.Master, Name: "m1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.shows.Replace(pass)
	return next
}

// live sets for how long the certificates are valid that the master signs.
func (w *world) live(lives trust.Lives) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ca = w.ca.Living(lives)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	key := trust.NewKey()
	ca, err := key.Authority()
	if err != nil {
		t.Fatal(err)
	}
	pass, err := ca.Issue(trust.Identity{Kind: trust.Master, Name: "m1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	n := memnet.New()
	listener, err := n.Listen("m1:5060")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{signer: &signer{ca: ca}, key: key}
	w.config = joining.Config{Masters: []string{"m1:5060"}, Dial: n.From("a1").Dial}
	master := trust.NewHolder(pass)
	w.shows = master
	server := grpc.NewServer(grpc.Creds(transport.ServerCredentials(master, trust.Door{Joiners: true})))
	apiv1.RegisterTrustServiceServer(server, w.signer)
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	// The master renews its own certificate, as masters do.
	renewing, stop := context.WithCancel(t.Context())
	served.Go(func() {
		for pause.For(renewing, 6*time.Hour) {
			if again, err := w.authority().Issue(trust.Identity{Kind: trust.Master, Name: "m1"}, time.Now()); err == nil {
				master.Replace(again)
			}
		}
	})
	t.Cleanup(func() { stop(); server.Stop(); served.Wait() })
	return w
}

func TestAPassIsRenewedAtHalfOfItsLifeForAsLongAsItIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		answer, err := joining.Join(t.Context(), w.config, trust.NewToken(w.ca.Digest()), trust.NewPass())
		if err != nil {
			t.Fatal(err)
		}
		holder := trust.NewHolder(answer.Pass)
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan *trust.Pass, 100)
		var keeping sync.WaitGroup
		keeping.Go(func() {
			joining.Keep(ctx, holder, func() joining.Config { return w.config }, func(p *trust.Pass) error { kept <- p; return nil })
		})
		pause.For(t.Context(), 14*24*time.Hour)
		if len(kept) > 0 {
			t.Error("it was renewed before half of its life")
		}
		first := <-kept
		synctest.Wait()
		if holder.Pass() != first || first.Ends().Before(time.Now().Add(29*24*time.Hour)) {
			t.Errorf("the pass that is shown ends at %v", holder.Pass().Ends())
		}
		// Nobody signs for ten days: the old certificate stays in use, and the renewal is tried again.
		w.refuse(api.E("trust.sign", api.Denied, "", errors.New("not now")))
		pause.For(t.Context(), 25*24*time.Hour)
		if holder.Pass() != first || len(kept) > 0 {
			t.Error("it was renewed by nobody")
		}
		w.refuse(nil)
		second := <-kept
		stop()
		keeping.Wait()
		if !time.Now().Before(first.Ends()) || second.Ends().Before(first.Ends()) {
			t.Error("the second renewal came too late")
		}
		callers := w.answered()
		if len(callers) != 3 || callers[0].Kind != trust.Nobody || callers[1].Name != "a1" || callers[2].Name != "a1" {
			t.Errorf("the master was asked by %v, want a joiner and then a1 twice", callers)
		}
	})
}

func TestAnotherAuthorityIsFoundSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		answer, err := joining.Join(t.Context(), w.config, trust.NewToken(w.ca.Digest()), trust.NewPass())
		if err != nil {
			t.Fatal(err)
		}
		holder := trust.NewHolder(answer.Pass)
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan *trust.Pass, 100)
		var keeping sync.WaitGroup
		keeping.Go(func() {
			joining.Keep(ctx, holder, func() joining.Config { return w.config }, func(p *trust.Pass) error { kept <- p; return nil })
		})
		pause.For(t.Context(), 25*time.Hour) // the master renews its certificate every six hours, and not at this moment
		next := w.rotate(t)
		began := time.Now()
		renewed := <-kept
		if took := time.Since(began); took > 2*time.Hour || renewed.Authority() != next.Digest() {
			t.Errorf("after %v it has a certificate of %v, want one of %v", took, renewed.Authority(), next.Digest())
		}
		pause.For(t.Context(), 24*time.Hour)
		if len(kept) > 0 {
			t.Error("it was renewed again, without need")
		}
		stop()
		keeping.Wait()
	})
}

// TestShortLivesAreRenewedAsWell: the pauses between tries and checks are in proportion to a certificate's life.
func TestShortLivesAreRenewedAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.live(trust.Lives{Agents: time.Minute})
		answer, err := joining.Join(t.Context(), w.config, trust.NewToken(w.ca.Digest()), trust.NewPass())
		if err != nil {
			t.Fatal(err)
		}
		holder := trust.NewHolder(answer.Pass)
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan *trust.Pass, 100)
		var keeping sync.WaitGroup
		keeping.Go(func() {
			joining.Keep(ctx, holder, func() joining.Config { return w.config }, func(p *trust.Pass) error { kept <- p; return nil })
		})
		pause.For(t.Context(), 10*time.Minute)
		if n := len(kept); n < 16 || n > 20 { // each lives for a minute and is renewed after 30 to 36 seconds
			t.Errorf("in ten minutes it was renewed %d times", n)
		}
		for len(kept) > 0 {
			<-kept
		}
		ends := (<-kept).Ends() // it was renewed at this moment
		w.refuse(api.E("trust.sign", api.Denied, "", errors.New("not now")))
		pause.For(t.Context(), 45*time.Second)
		w.refuse(nil)
		pause.For(t.Context(), 5*time.Second)
		if !holder.Pass().Ends().After(ends) {
			t.Error("nobody signed for three quarters of its life, and it was not renewed soon after")
		}
		stop()
		keeping.Wait()
	})
}

// TestNobodyAsksForEverByWhatHasEnded: a member that shows an expired certificate is told so, even if nothing else
// limits its tries. The same holds for a certificate that expires while nobody answers.
func TestNobodyAsksForEverByWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, sleeps := range []time.Duration{time.Minute, 0} {
			w := newWorld(t)
			w.live(trust.Lives{Agents: 20 * time.Second})
			answer, err := joining.Join(t.Context(), w.config, trust.NewToken(w.ca.Digest()), trust.NewPass())
			if err != nil {
				t.Fatal(err)
			}
			if pause.For(t.Context(), sleeps); sleeps == 0 {
				w.refuse(api.E("trust.sign", api.NotLeader, "", errors.New("nobody leads")))
			}
			began := time.Now()
			_, err = joining.Renew(t.Context(), w.config, trust.NewHolder(answer.Pass))
			if !api.Is(err, api.Denied) || !strings.Contains(err.Error(), "the certificate ended at") {
				t.Errorf("after %v: %v", sleeps, err)
			}
			if took := time.Since(began); took > 30*time.Second || sleeps > 0 && took > 10*time.Second {
				t.Errorf("after %v it was told after %v", sleeps, took)
			}
		}
	})
}

// TestWhoSleptTooLongJoinsAnew: a member whose certificate expired while it slept joins anew with its token.
func TestWhoSleptTooLongJoinsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.live(trust.Lives{Agents: time.Hour})
		w.config.Token = trust.NewToken(w.ca.Digest())
		answer, err := joining.Join(t.Context(), w.config, w.config.Token, trust.NewPass())
		if err != nil {
			t.Fatal(err)
		}
		holder := trust.NewHolder(answer.Pass)
		pause.For(t.Context(), 5*time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan *trust.Pass, 100)
		var keeping sync.WaitGroup
		keeping.Go(func() {
			joining.Keep(ctx, holder, func() joining.Config { return w.config }, func(p *trust.Pass) error { kept <- p; return nil })
		})
		if anew := <-kept; !anew.Ends().After(time.Now()) {
			t.Errorf("what it shows ended at %v", anew.Ends())
		}
		stop()
		keeping.Wait()
		if callers := w.answered(); len(callers) != 2 || callers[1].Kind != trust.Nobody {
			t.Errorf("the master was asked by %v, want a joiner twice", callers)
		}
	})
}

func TestWhatAskingAgainWillNotChangeEndsTheJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		token := trust.NewToken(w.ca.Digest())
		for _, kind := range []api.Kind{api.Denied, api.Invalid, api.Unsupported, api.Exists} {
			w.refuse(api.E("trust.sign", kind, "", errors.New("no")))
			if _, err := joining.Join(t.Context(), w.config, token, trust.NewPass()); !api.Is(err, kind) {
				t.Errorf("%v: the join ended with %v", kind, err)
			}
		}
		if _, err := joining.Join(t.Context(), w.config, trust.NewToken(trust.Digest{}), trust.NewPass()); !api.Is(err, api.Denied) {
			t.Errorf("by the token of another cluster: %v", err)
		}
		w.refuse(api.E("trust.sign", api.Unavailable, "", errors.New("nobody leads")))
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := joining.Join(ctx, w.config, token, trust.NewPass()); !api.Is(err, api.Unavailable) || time.Since(began) != time.Minute {
			t.Errorf("while nobody leads it waited %v: %v", time.Since(began), err)
		}
	})
}

func TestAMasterThatIsNotThereYetIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		dial, away := w.config.Dial, 3
		w.config.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			if away--; away >= 0 {
				return nil, errors.New("connection refused")
			}
			return dial(ctx, address)
		}
		var said []string
		w.config.Failed = func(address string, _ error) { said = append(said, address) }
		if _, err := joining.Join(t.Context(), w.config, trust.NewToken(w.ca.Digest()), trust.NewPass()); err != nil {
			t.Error(err)
		}
		if len(said) != 1 {
			t.Errorf("the same failure was told %d times, want once", len(said))
		}
	})
}
