package master

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/master/internal/intake"
)

// took is how long something takes.
func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// alone is a master that leads in a network of its own.
func alone(t *testing.T) (*Master, *memnet.Net, func()) {
	t.Helper()
	return aloneAt(t, "none")
}

// aloneAt also serves HTTP.
func aloneAt(t *testing.T, httpAt string) (*Master, *memnet.Net, func()) {
	t.Helper()
	network := memnet.New()
	m, err := New(Config{
		ID: "m1", Memory: NewMemory(), Peers: []Peer{{ID: "m1", Addr: "host:5070"}}, GRPC: "host:5060", HTTP: httpAt, Raft: "host:5070",
		Listen: network.Listen, Dial: network.From("host").Dial, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	UntilLeads(t, m)
	return m, network, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// peerOf is a connection from a host of the network.
func peerOf(t *testing.T, network *memnet.Net, host string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///host:5060", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(network.From(host).Dial))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// admitted registers an agent of that nonce from a host of the network and returns its stream.
func admitted(t *testing.T, network *memnet.Net, host, nonce string) AgentStream {
	t.Helper()
	stream := OpenAgent(t.Context(), t, network.From(host).Dial, "host:5060")
	err := stream.Send(&apiv1.AgentCalls{Calls: []*apiv1.AgentCall{{Call: &apiv1.AgentCall_Register{Register: &apiv1.RegisterAgent{
		Agent: &apiv1.Agent{Hostname: nonce, Resources: []*apiv1.Resource{{Name: "cpus", Milli: 1000}}}, Nonce: nonce, BootId: "boot"}}}}})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// TestAdmissionsAreHeld (R34): agents with ever new nonces are admitted so many a second from one address, however many
// connections they have; one from elsewhere is admitted at once.
func TestAdmissionsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, end := alone(t)
		const more = 100
		least := more * time.Second / intake.SessionsPerSecond
		if held := took(func() {
			for i := range intake.SessionsAtOnce + more {
				_ = admitted(t, network, "crowd", fmt.Sprint("nonce-", i)).CloseSend()
			}
		}); held < least || held > 2*least {
			t.Errorf("%d admissions took %v, at %d a second", intake.SessionsAtOnce+more, held, intake.SessionsPerSecond)
		}
		if held := took(func() { admitted(t, network, "elsewhere", "elsewhere") }); held > time.Second/10 {
			t.Errorf("an agent from elsewhere is held for %v", held)
		}
		end()
	})
}

// TestWholeAnswersAreHeld (R34): a caller that keeps asking for an answer that covers everything waits before the next
// one. Other callers do not wait, nor does one that asks once.
func TestWholeAnswersAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, end := aloneAt(t, "host:5050")
		dial := network.From("reader").Dial
		pages := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, to string) (net.Conn, error) { return dial(ctx, to) }}}
		hashes, elsewhere := peerOf(t, network, "hasher"), peerOf(t, network, "elsewhere")
		hash := func(conn *grpc.ClientConn) {
			if _, err := apiv1.NewRaftServiceClient(conn).StateHash(t.Context(), &apiv1.StateHashRequest{}); err != nil {
				t.Error(err)
			}
		}
		page := func() {
			answer, err := pages.Get("http://host:5050/metrics")
			if err != nil {
				t.Error(err)
				return
			}
			if text, err := io.ReadAll(answer.Body); err != nil || len(text) == 0 || answer.StatusCode != http.StatusOK {
				t.Errorf("%d bytes of metrics, %s, %v", len(text), answer.Status, err)
			}
			_ = answer.Body.Close()
		}
		const times = 20
		least := times * intake.WholePrice / (64 << 20) * time.Second * 9 / 10
		for what, ask := range map[string]func(){"hashes": func() { hash(hashes) }, "pages of metrics": page} {
			if held := took(ask); held > time.Second/10 {
				t.Errorf("the first of the %s is held for %v", what, held)
			}
			if held := took(func() {
				for range times {
					ask()
				}
			}); held < least {
				t.Errorf("%d %s took %v, not %v", times, what, held, least)
			}
		}
		if held := took(func() { hash(elsewhere) }); held > time.Second/10 {
			t.Errorf("a call from elsewhere is held for %v", held)
		}
		pages.CloseIdleConnections()
		_, _ = hashes.Close(), elsewhere.Close()
		end()
	})
}

// TestWordsInVainAreHeld (R34): an agent that keeps speaking of things that do not exist is held after each part of a
// message.
func TestWordsInVainAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, end := alone(t)
		stream := admitted(t, network, "liar", "liar")
		lies := new(apiv1.AgentCalls)
		for i := range 4000 {
			lies.Calls = append(lies.Calls, &apiv1.AgentCall{Call: &apiv1.AgentCall_Status{Status: &apiv1.Status{
				FrameworkId: "framework-9", TaskId: fmt.Sprint("t", i), ExecutorId: "x", Number: 1, State: apiv1.TaskState_RUNNING}}})
		}
		began := time.Now()
		if err := stream.Send(lies); err != nil {
			t.Fatal(err)
		}
		for answers := 0; answers < len(lies.Calls); {
			events, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range events.GetEvents() {
				if event.GetAcknowledge() != nil {
					answers++
				}
			}
		}
		if held := time.Since(began); held < time.Second {
			t.Errorf("4,000 of them are read in %v", held)
		}
		end()
	})
}

// askerOf is a scheduler that has subscribed by its connection, and the events that it is told from now on.
func askerOf(t *testing.T, conn *grpc.ClientConn) grpc.BidiStreamingClient[apiv1.SchedulerCalls, apiv1.SchedulerEvents] {
	t.Helper()
	stream, err := apiv1.NewSchedulerServiceClient(conn).Session(t.Context())
	if err == nil {
		err = stream.Send(&apiv1.SchedulerCalls{Calls: []*apiv1.SchedulerCall{
			{Number: 1, Call: &apiv1.SchedulerCall_Subscribe{Subscribe: &apiv1.Subscribe{
				Instance: "asker", Framework: &apiv1.Framework{Name: "asker", Roles: []string{"web"}}}}},
			{Number: 2, Call: &apiv1.SchedulerCall_Unsettled{Unsettled: &apiv1.Unsettled{Last: true}}},
		}})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// TestCallsInVainAreHeld (R34): a scheduler that launches thousands of tasks on offers that do not exist, or asks about
// thousands of unknown tasks, is held for at least half a second each time.
func TestCallsInVainAreHeld(t *testing.T) {
	const things, times = 4000, 6
	launch := &apiv1.Operation{Kind: apiv1.OperationKind_LAUNCH}
	ask := new(apiv1.Reconcile)
	for i := range things {
		launch.Tasks = append(launch.Tasks, new(apiv1.Task))
		ask.Tasks = append(ask.Tasks, &apiv1.UnsettledTask{TaskId: fmt.Sprint("t", i)})
	}
	for _, vain := range []struct {
		what    string
		call    *apiv1.SchedulerCall
		answers int
		is      func(*apiv1.SchedulerEvent) bool
	}{
		{"launches", &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Accept{Accept: &apiv1.Accept{
			OfferIds: []string{"offer-1-9999"}, Operations: []*apiv1.Operation{launch}}}}, times,
			func(event *apiv1.SchedulerEvent) bool { return event.GetRefused() != nil }},
		{"questions", &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Reconcile{Reconcile: ask}}, times * things,
			func(event *apiv1.SchedulerEvent) bool {
				return event.GetUpdate().GetState() == apiv1.TaskState_UNKNOWN
			}},
	} {
		t.Run(vain.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, network, end := alone(t)
				conn := peerOf(t, network, "asker")
				stream := askerOf(t, conn)
				held := took(func() {
					for i := range times {
						call := proto.CloneOf(vain.call)
						call.Number = uint64(3 + i)
						if err := stream.Send(&apiv1.SchedulerCalls{Calls: []*apiv1.SchedulerCall{call}}); err != nil {
							t.Fatal(err)
						}
					}
					for answers := 0; answers < vain.answers; {
						events, err := stream.Recv()
						if err != nil {
							t.Fatal(err)
						}
						for _, event := range events.GetEvents() {
							if vain.is(event) {
								answers++
							}
						}
					}
				})
				if least := (times - 2) * time.Second / 2; held < least { // two may come before the first is charged
					t.Errorf("%d %s of %d tasks in vain took %v, not %v", times, vain.what, things, held, least)
				}
				_ = conn.Close()
				end()
			})
		})
	}
}
