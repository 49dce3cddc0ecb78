package dev_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/tender/internal/cli/dev"
)

// theatre runs masters and agents that only note when they start and end.
type theatre struct {
	apiv1.OperatorServiceClient
	mu     sync.Mutex
	events []string
	agents []string // addresses of running agents
	tokens []string // tokens with which the agents were to join
	breaks string   // the part that fails at its start
	ready  chan dev.Cluster
	said   []string

	announced []string // what was announced to programs on this machine
	deaf      error    // why announcing fails

	refusals []api.Kind // errors for tokens, before the first is made
}

func (th *theatre) note(format string, args ...any) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.events = append(th.events, fmt.Sprintf(format, args...))
}

func (th *theatre) config(masters, agents int, dir string) dev.Config {
	th.ready = make(chan dev.Cluster, 1)
	return dev.Config{
		Masters: masters, Agents: agents, Dir: dir, FreePorts: true,
		RunMaster: func(ctx context.Context, m dev.Master) error { return th.part(ctx, "master "+m.ID) },
		RunAgent: func(ctx context.Context, a dev.Agent) error {
			th.mu.Lock()
			th.agents = append(th.agents, a.HTTP)
			th.tokens = append(th.tokens, a.Token)
			th.mu.Unlock()
			return th.part(ctx, fmt.Sprintf("agent %d", a.Number))
		},
		Operator: func(_ context.Context, _ []string, token string, _ func(error)) (apiv1.OperatorServiceClient, io.Closer, error) {
			th.note("somebody enters by %s", token)
			return th, io.NopCloser(nil), nil
		},
		Announce: func(masters []string, token string) (func() error, error) {
			if th.deaf != nil {
				return nil, th.deaf
			}
			th.note("programs are told")
			th.announced = append(th.announced, fmt.Sprint(masters, token))
			return func() error { th.announced = append(th.announced, "withdrawn"); return nil }, nil
		},
		Say:   func(format string, args ...any) { th.said = append(th.said, fmt.Sprintf(format, args...)) },
		Ready: func(c dev.Cluster) { th.ready <- c },
	}
}

func (th *theatre) part(ctx context.Context, name string) error {
	if name == th.breaks {
		return errors.New("its port is taken")
	}
	th.note("%s comes", name)
	<-ctx.Done()
	th.note("%s goes", name)
	return nil
}

func (th *theatre) CreateToken(_ context.Context, r *apiv1.CreateTokenRequest, _ ...grpc.CallOption) (*apiv1.CreateTokenResponse, error) {
	if len(th.refusals) > 0 {
		kind := th.refusals[0]
		th.refusals = th.refusals[1:]
		return nil, api.E("raft.propose", kind, "m1", errors.New("leadership lost while committing log"))
	}
	return &apiv1.CreateTokenResponse{Token: fmt.Sprintf("a token for %d of kind %s", r.GetUses(), r.GetKind())}, nil
}

func (th *theatre) ListAgents(context.Context, *apiv1.ListRequest, ...grpc.CallOption) (*apiv1.ListAgentsResponse, error) {
	th.mu.Lock()
	defer th.mu.Unlock()
	answer := &apiv1.ListAgentsResponse{}
	for i, address := range th.agents {
		answer.Items = append(answer.Items, &apiv1.AgentView{Id: fmt.Sprintf("agent-%d", i+7), Address: address, State: "RUNNING"})
	}
	return answer, nil
}

func TestAClusterComesUpIsDescribedAndGoesInOrder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	th := &theatre{}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	config := th.config(3, 2, "")
	go func() { done <- dev.Run(ctx, config) }()
	var cluster dev.Cluster
	select {
	case cluster = <-th.ready:
	case err := <-done:
		t.Fatalf("it ended before it was ready: %v", err)
	}
	var file dev.Cluster
	data, err := os.ReadFile(filepath.Join(cluster.Dir, dev.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Masters) != 3 || len(file.Agents) != 2 || file.Masters[2].ID != "m3" || file.Masters[0].PID != os.Getpid() ||
		!strings.HasPrefix(file.Agents[1].ID, "agent-") || !cluster.Temporary {
		t.Errorf("dev.json is %s", data)
	}
	addresses := map[string]bool{}
	for _, master := range cluster.Masters {
		addresses[master.GRPC], addresses[master.HTTP], addresses[master.Raft] = true, true, true
		if len(master.Peers) != 3 {
			t.Errorf("master %s has peers %v", master.ID, master.Peers)
		}
	}
	for _, agent := range cluster.Agents {
		addresses[agent.HTTP] = true
	}
	if len(addresses) != 11 {
		t.Errorf("addresses are not apart: %v", addresses)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cluster.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	goes := func(kind string) func(string) bool {
		return func(e string) bool { return strings.HasPrefix(e, kind) && strings.HasSuffix(e, "goes") }
	}
	firstMaster := slices.IndexFunc(th.events, goes("master"))
	if len(th.events) != 12 || firstMaster < 0 || slices.ContainsFunc(th.events[firstMaster:], goes("agent")) {
		t.Errorf("went in the order %q", th.events)
	}
}

func TestAPartThatFailsEndsTheWhole(t *testing.T) {
	for _, part := range []string{"master m2", "agent 0"} {
		t.Setenv("TMPDIR", t.TempDir())
		th := &theatre{breaks: part}
		err := dev.Run(t.Context(), th.config(2, 2, ""))
		if err == nil || !strings.Contains(err.Error(), "its port is taken") {
			t.Errorf("%s: got %v", part, err)
		}
		if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", part, left, err)
		}
	}
}

// once starts a cluster in the folder, and stops it again.
func once(t *testing.T, masters, agents int, dir string) (dev.Cluster, error) {
	t.Helper()
	th := &theatre{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	config := th.config(masters, agents, dir)
	go func() { done <- dev.Run(ctx, config) }()
	select {
	case cluster := <-th.ready:
		stop()
		return cluster, <-done
	case err := <-done:
		return dev.Cluster{}, err
	}
}

func TestAKeptFolderKeepsItsAddresses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := once(t, 3, 1, dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := once(t, 3, 2, dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range first.Masters {
		if first.Masters[i].Raft != second.Masters[i].Raft || first.Masters[i].GRPC != second.Masters[i].GRPC {
			t.Errorf("master %d moved from %v to %v", i, first.Masters[i], second.Masters[i])
		}
	}
	if len(second.Agents) != 2 || first.Agents[0].HTTP != second.Agents[0].HTTP || len(second.Masters[0].Peers) != 3 {
		t.Errorf("agents were %v and are %v", first.Agents, second.Agents)
	}
	if _, err := os.Stat(filepath.Join(dir, dev.JSONFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("dev.json outlives the cluster: %v", err)
	}
	if _, err := once(t, 1, 1, dir); err == nil || !strings.Contains(err.Error(), "--masters 3") {
		t.Errorf("another number of masters: %v", err)
	}
	listener, err := net.Listen("tcp", first.Masters[1].Raft)
	if err != nil {
		t.Fatal(err)
	}
	_, err = once(t, 3, 1, dir)
	if err == nil || !strings.Contains(err.Error(), first.Masters[1].Raft) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a taken port: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAClusterHasCertificatesUnlessItIsToldToDoWithout: its masters have one key, agents join with a token, and
// programs on this machine find the first operator's token for as long as the cluster runs.
func TestAClusterHasCertificatesUnlessItIsToldToDoWithout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	run := func(insecure bool) (*theatre, error) {
		th := &theatre{}
		config := th.config(3, 2, dir)
		config.Insecure = insecure
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 1)
		go func() { done <- dev.Run(ctx, config) }()
		select {
		case <-th.ready:
			stop()
			return th, <-done
		case err := <-done:
			return th, err
		}
	}
	th, err := run(false)
	if err != nil {
		t.Fatal(err)
	}
	key, err := trust.ReadKey(filepath.Join(dir, "master-m1"))
	if err != nil || key.IsZero() {
		t.Fatalf("the first master has no key: %v", err)
	}
	for _, other := range []string{"master-m2", "master-m3"} {
		if its, err := trust.ReadKey(filepath.Join(dir, other)); err != nil || its != key {
			t.Errorf("%s has another key, %v", other, err)
		}
	}
	first, err := key.FirstToken()
	if err != nil {
		t.Fatal(err)
	}
	if want := "somebody enters by " + first.String(); !slices.Contains(th.events, want) {
		t.Errorf("nobody has entered by the first operator's token: %q", th.events)
	}
	want := "a token for 0 of kind agent" // any number of uses: an agent that is marked gone joins anew
	if len(th.tokens) != 2 || th.tokens[0] != want || th.tokens[1] != want {
		t.Errorf("the agents join by %q", th.tokens)
	}
	if len(th.announced) != 2 || !strings.HasSuffix(th.announced[0], first.String()) || th.announced[1] != "withdrawn" {
		t.Errorf("programs on this machine were told %q", th.announced)
	}
	if _, err := run(true); err == nil || !strings.Contains(err.Error(), "leave --insecure out") {
		t.Errorf("a folder with a key, without certificates: %v", err)
	}
	if _, err := run(false); err != nil { // a second time
		t.Error(err)
	}
	if its, err := trust.ReadKey(filepath.Join(dir, "master-m1")); err != nil || its != key {
		t.Errorf("the second start has changed the key: %v", err)
	}
	dir = filepath.Join(t.TempDir(), "plain")
	if th, err = run(true); err != nil || len(th.announced) > 0 || th.tokens[0] != "" {
		t.Errorf("without certificates: %v, told %q, agents join by %q", err, th.announced, th.tokens)
	}
	for _, master := range []string{"master-m1", "master-m2"} { // they were killed before they had the key
		if err := os.Mkdir(filepath.Join(dir, master), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "master-m1", ".cluster.key-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if th, err = run(false); err != nil || len(th.said) > 0 || len(th.announced) != 2 || th.events[0] != "programs are told" {
		t.Errorf("killed before its masters had a key: %v, said %q, told %q, %q", err, th.said, th.announced, th.events)
	}
}

// TestATokenWhileTheLeadershipChanges: a cluster starts even if its first leader is deposed while it makes a token.
func TestATokenWhileTheLeadershipChanges(t *testing.T) {
	run := func(refusals ...api.Kind) error {
		th := &theatre{refusals: refusals}
		config := th.config(3, 1, filepath.Join(t.TempDir(), "data"))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 1)
		go func() { done <- dev.Run(ctx, config) }()
		select {
		case <-th.ready:
			stop()
			return <-done
		case err := <-done:
			return err
		}
	}
	if err := run(api.Unknown, api.NotLeader, api.Unavailable, api.Unknown); err != nil {
		t.Error(err)
	}
	if err := run(api.Denied); !api.Is(err, api.Denied) {
		t.Errorf("denied a token it ends with %v", err)
	}
}

// TestAFolderWithoutCertificatesStaysSo: a cluster of a version without certificates, or of --insecure, goes on and
// says so.
func TestAFolderWithoutCertificatesStaysSo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(filepath.Join(dir, "master-m1", "raft"), 0o700); err != nil {
		t.Fatal(err)
	}
	th := &theatre{}
	config := th.config(3, 1, dir)
	insecure := 0
	config.RunMaster = func(ctx context.Context, m dev.Master) error {
		if m.Insecure {
			th.mu.Lock()
			insecure++
			th.mu.Unlock()
		}
		return th.part(ctx, "master "+m.ID)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	config.Ready = func(dev.Cluster) { stop() }
	if err := dev.Run(ctx, config); err != nil {
		t.Fatal(err)
	}
	if insecure != 3 || len(th.announced) > 0 || th.tokens[0] != "" || len(th.said) != 1 || !strings.Contains(th.said[0], "goes on so") {
		t.Errorf("%d masters without certificates, told %q, agents join by %q, said %q", insecure, th.announced, th.tokens, th.said)
	}
}

// TestAClusterThatCanNotBeAnnounced: it runs all the same, and says where its token is.
func TestAClusterThatCanNotBeAnnounced(t *testing.T) {
	th := &theatre{deaf: errors.New("/tmp is full")}
	dir := t.TempDir()
	config := th.config(1, 1, dir)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	config.Ready = func(dev.Cluster) { stop() }
	if err := dev.Run(ctx, config); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "master-m1", trust.FirstTokenFile)
	if len(th.said) != 1 || !strings.Contains(th.said[0], "/tmp is full") || !strings.Contains(th.said[0], "$(cat "+file+")") {
		t.Errorf("it said %q", th.said)
	}
	if _, err := trust.ReadSecret(file); err != nil {
		t.Errorf("what it names: %v", err)
	}
}
