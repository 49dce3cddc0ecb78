package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/nearby"
	"github.com/tenderhq/tender/internal/wire"
)

// master answers each call as the test says. Every call is noted.
type master struct {
	apiv1.UnimplementedOperatorServiceServer
	name   string
	net    *network
	answer func() error
}

func (m *master) GetCluster(ctx context.Context, _ *apiv1.GetClusterRequest) (*apiv1.ClusterView, error) {
	view := &apiv1.ClusterView{LeaderId: m.name}
	if m.net.view != nil {
		proto.Merge(view, m.net.view)
	}
	return view, m.called(ctx, "read "+m.name)
}

func (m *master) KillTask(ctx context.Context, _ *apiv1.KillTaskRequest) (*apiv1.KillTaskResponse, error) {
	return &apiv1.KillTaskResponse{TaskId: m.name}, m.called(ctx, "kill "+m.name)
}

func (m *master) ListMasters(context.Context, *apiv1.ListRequest) (*apiv1.ListMastersResponse, error) {
	return &apiv1.ListMastersResponse{Items: m.net.members}, nil
}

func (m *master) ListChanges(ctx context.Context, _ *apiv1.ListChangesRequest) (*apiv1.ListChangesResponse, error) {
	return &apiv1.ListChangesResponse{MasterId: m.name}, m.called(ctx, "changes "+m.name)
}

func (m *master) called(ctx context.Context, what string) error {
	m.net.mu.Lock()
	m.net.calls = append(m.net.calls, what)
	m.net.mu.Unlock()
	err := m.answer()
	if errors.Is(err, errHangs) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

var errHangs = errors.New("hangs")

// network holds the masters by address.
type network struct {
	listeners map[string]*bufconn.Listener
	view      *apiv1.ClusterView // what the masters answer besides their names; nil: nothing
	members   []*apiv1.MasterView
	mu        sync.Mutex
	calls     []string
}

func (n *network) add(t *testing.T, name string, answer func() error) {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	n.listeners[name+":5060"] = listener
	server := grpc.NewServer()
	apiv1.RegisterOperatorServiceServer(server, &master{name: name, net: n, answer: answer})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	if listener := n.listeners[address]; listener != nil {
		return listener.DialContext(ctx)
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

func (n *network) client(t *testing.T, masters ...string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Masters: masters, Dial: n.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func newNetwork() *network { return &network{listeners: map[string]*bufconn.Listener{}} }

func leads() error { return nil }

func refusal(kind apiv1.ErrorKind, leader, message string) error {
	s, err := status.New(codes.FailedPrecondition, message).WithDetails(&apiv1.Error{Kind: kind, Leader: leader, Subject: "task-1", Message: message})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func follows(leader string) func() error {
	return func() error { return refusal(apiv1.ErrorKind_NOT_LEADER, leader, "") }
}

func TestAFollowerIsFollowedToTheLeaderSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add(t, "m1", follows("m3:5060"))
		n.add(t, "m3", leads)
		c := n.client(t, "m1:5060", "m2:5060")
		for range 2 {
			answer, err := c.Operator().KillTask(t.Context(), &apiv1.KillTaskRequest{})
			if err != nil || answer.GetTaskId() != "m3" {
				t.Fatalf("got %v, %v", answer, err)
			}
		}
		// The leader is looked for by a read, so that an action happens only once. After that the leader is remembered.
		if want := []string{"read m1", "read m3", "kill m3", "kill m3"}; !slices.Equal(n.calls, want) {
			t.Errorf("calls were %v, want %v", n.calls, want)
		}
	})
}

func TestAnElectionIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		elected := time.Now().Add(2 * time.Second)
		n.add(t, "m1", follows("m2:5060"))
		n.add(t, "m2", func() error {
			if time.Now().Before(elected) {
				return follows("m1:5060")() // two followers that name each other
			}
			return nil
		})
		answer, err := n.client(t, "m1:5060", "m2:5060").Operator().GetCluster(t.Context(), &apiv1.GetClusterRequest{})
		if err != nil || answer.GetLeaderId() != "m2" {
			t.Errorf("got %v, %v", answer, err)
		}
	})
}

func TestNoLeaderIsToldWithWhatEachMasterSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add(t, "m1", follows(""))
		n.add(t, "m2", func() error { return errHangs })
		start := time.Now()
		_, err := n.client(t, "m1:5060", "m2:5060", "m3:5060").Operator().GetCluster(t.Context(), &apiv1.GetClusterRequest{})
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		if !api.Is(err, api.Unavailable) {
			t.Errorf("kind of %v", err)
		}
		for _, want := range []string{"no leader", "m1:5060 (knows no leader)", "m2:5060 (does not answer)", "m3:5060 (connection refused)"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
	})
}

func TestAMasterThatHangsDoesNotHideTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add(t, "m1", func() error { return errHangs })
		n.add(t, "m2", leads)
		answer, err := n.client(t, "m1:5060", "m2:5060").Operator().KillTask(t.Context(), &apiv1.KillTaskRequest{})
		if err != nil || answer.GetTaskId() != "m2" {
			t.Errorf("got %v, %v", answer, err)
		}
	})
}

// TestALeaderThatHangsCostsOneTurnARound: this holds however many masters still name it.
func TestALeaderThatHangsCostsOneTurnARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add(t, "m1", follows("m3:5060"))
		n.add(t, "m2", follows("m3:5060"))
		n.add(t, "m3", func() error { return errHangs })
		if _, err := n.client(t, "m1:5060", "m2:5060").Operator().GetCluster(t.Context(), &apiv1.GetClusterRequest{}); !api.Is(err, api.Unavailable) {
			t.Error(err)
		}
		synctest.Wait()
		if want := []string{"read m1", "read m3", "read m2", "read m1"}; !slices.Equal(n.calls[:min(len(n.calls), len(want))], want) {
			t.Errorf("calls were %v, want %v at first", n.calls, want)
		}
	})
}

func TestARefusalIsTypedAndNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add(t, "m1", func() error { return refusal(apiv1.ErrorKind_NOT_FOUND, "", "nobody knows it") })
		n.add(t, "m2", leads)
		_, err := n.client(t, "m1:5060", "m2:5060").Operator().GetCluster(t.Context(), &apiv1.GetClusterRequest{})
		var typed *api.Error
		if !errors.As(err, &typed) || typed.Kind != api.NotFound || typed.Subject != "task-1" || typed.Err.Error() != "nobody knows it" {
			t.Errorf("got %v", err)
		}
		if len(n.calls) != 1 {
			t.Errorf("calls were %v", n.calls)
		}
	})
}

func TestAnActionThatTheLeaderCouldNotDoKeepsItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add(t, "m1", func() error {
			if len(n.calls) > 1 {
				return refusal(apiv1.ErrorKind_UNAVAILABLE, "", "its agent does not answer")
			}
			return nil
		})
		_, err := n.client(t, "m1:5060").Operator().KillTask(t.Context(), &apiv1.KillTaskRequest{})
		if !api.Is(err, api.Unavailable) || !strings.Contains(err.Error(), "its agent does not answer") || len(n.calls) != 2 {
			t.Errorf("got %v after %v", err, n.calls)
		}
		if _, err := n.client(t, "m1:5060").Operator().GetCluster(t.Context(), &apiv1.GetClusterRequest{}); !api.Is(err, api.Unavailable) ||
			errors.As(err, new(*client.Unreachable)) || !strings.Contains(err.Error(), "its agent does not answer") || len(n.calls) < 4 {
			t.Errorf("a read, which is tried again: got %v after %v", err, n.calls)
		}
	})
}

// TestWhoSaysWhenToComeBackIsObeyed: reads and actions wait that long, unless it is longer than their patience.
func TestWhoSaysWhenToComeBackIsObeyed(t *testing.T) {
	for name, call := range map[string]func(context.Context, *client.Client) error{
		"read": func(ctx context.Context, c *client.Client) error {
			_, err := c.Operator().GetCluster(ctx, &apiv1.GetClusterRequest{})
			return err
		},
		"action": func(ctx context.Context, c *client.Client) error {
			_, err := c.Operator().KillTask(ctx, &apiv1.KillTaskRequest{})
			return err
		},
	} {
		for _, test := range []struct {
			asked time.Duration
			waits bool
		}{{2 * time.Second, true}, {30 * time.Second, false}} {
			synctest.Test(t, func(t *testing.T) {
				n, refusals, start := newNetwork(), 1, time.Now()
				n.add(t, "m1", func() error {
					if refusals--; refusals >= 0 {
						return wire.Status(api.E("master.call", api.Limit, "etl", errors.New("too many calls")).RetryIn(test.asked))
					}
					return nil
				})
				n.add(t, "m2", func() error { t.Error("another master was asked meanwhile"); return nil })
				err := call(t.Context(), n.client(t, "m1:5060", "m2:5060"))
				took := time.Since(start)
				switch {
				case test.waits && (err != nil || took < test.asked || took > 2*test.asked):
					t.Errorf("%s: asked to wait %v: %v after %v", name, test.asked, err, took)
				case !test.waits && (!api.Is(err, api.Limit) || api.RetryAfter(err) != test.asked || took != 0):
					t.Errorf("%s: asked to wait for longer than it has patience: %v after %v", name, err, took)
				}
			})
		}
	}
}

// TestAnotherClusterIsFinal: when all masters that are named belong to another cluster, with certificates or without, the
// command says so at once.
func TestAnotherClusterIsFinal(t *testing.T) {
	foreign := &trust.ForeignError{Identity: trust.Identity{Cluster: "theirs", Kind: trust.Master, Name: "m1"}, Own: "ours"}
	for says, other := range map[string]error{
		"it is of cluster theirs, and this is ours": fmt.Errorf("handshake: %w", foreign),
		"give the command again (it is of cluster":  fmt.Errorf("%w: give the command again (%w)", nearby.ErrReplaced, foreign),
		"come without token and context":            fmt.Errorf("handshake: %w", trust.ErrNoTLS),
	} {
		synctest.Test(t, func(t *testing.T) {
			var silent atomic.Bool // a dial that nobody waits for any more may still read it
			c, err := client.New(client.Config{Masters: []string{"m1:1", "m2:1"}, Dial: func(_ context.Context, address string) (net.Conn, error) {
				if address == "m2:1" && silent.Load() {
					return nil, syscall.ECONNREFUSED
				}
				return nil, other
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, oneSilent := range []bool{true, false} {
				silent.Store(oneSilent)
				began := time.Now()
				_, err := c.Operator().GetCluster(t.Context(), &apiv1.GetClusterRequest{})
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("it says %v", err)
				}
				if waited := time.Since(began) > time.Second; waited != oneSilent {
					t.Errorf("it waited for %v, while one master was silent: %v: %v", time.Since(began), oneSilent, err)
				}
			}
		})
	}
}

func TestTheCallersContextEndsTheSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := newNetwork().client(t, "m1:5060").Operator().GetCluster(ctx, &apiv1.GetClusterRequest{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

func TestAddressesAreChecked(t *testing.T) {
	for address, right := range map[string]bool{
		"127.0.0.1:5060": true, "[::1]:5060": true, "m1:5060": true,
		"m1:65535": true, "m1:65536": false, "m1:0": false, "m1:-1": false,
		"m1": false, ":5060": false, "m1:": false, "http://m1:5060": false, "m1 :5060": false, "": false,
	} {
		if err := client.CheckAddress(address); (err == nil) != right {
			t.Errorf("%q: %v", address, err)
		}
	}
}
