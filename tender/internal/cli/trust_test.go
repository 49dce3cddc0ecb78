package cli_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// trusted is a cluster of real processes whose members have certificates.
type trusted struct {
	t       *testing.T
	dir     string
	env     []string // the operator's environment
	masters []string // their gRPC addresses
	http    []string
	raft    []string
	procs   []*proc  // the masters, as they were first started
	flags   []string // further flags of all masters
}

// startTrusted starts the first master of a cluster, which founds it, and logs the first operator in.
func startTrusted(t *testing.T) *trusted {
	t.Helper()
	return startTrustedWith(t)
}

// startTrustedWith is startTrusted with these flags for masters.
func startTrustedWith(t *testing.T, flags ...string) *trusted {
	t.Helper()
	c := &trusted{t: t, dir: t.TempDir(), flags: flags}
	c.env = []string{"XDG_CONFIG_HOME=" + filepath.Join(c.dir, "operator"), "TENDER_MASTER=", "TENDER_TOKEN="}
	first := c.master("m1")
	first.await("login --master " + c.masters[0] + " --join " + filepath.Join(c.folder("m1"), "operator.token"))
	c.logIn(c.env, filepath.Join(c.folder("m1"), "operator.token"))
	first.await("launches carry receipts") // (R40)
	return c
}

func (c *trusted) folder(name string) string { return filepath.Join(c.dir, name) }

// logIn tries until the first master leads.
func (c *trusted) logIn(env []string, token string) {
	c.t.Helper()
	until(c.t, "the operator is logged in", func() bool {
		_, _, code := tender(c.t, env, "login", "--master", c.masters[0], "--join", token)
		return code == 0
	})
}

// master starts a master; with a token it joins the quorum.
func (c *trusted) master(id string, token ...string) *proc {
	c.t.Helper()
	ports := [3]string{}
	for i := range ports {
		ports[i] = strconv.Itoa(freePort(c.t))
	}
	args := []string{"master", "--id", id, "--data-dir", c.folder(id), "--grpc-port", ports[0], "--http-port", ports[1], "--raft-port", ports[2]}
	args = append(args, c.flags...)
	if len(token) > 0 {
		args = append(args, "--join", token[0], "--master", c.masters[0])
	}
	p := start(c.t, c.env, args...)
	c.procs = append(c.procs, p)
	for i, list := range []*[]string{&c.masters, &c.http, &c.raft} {
		*list = append(*list, "127.0.0.1:"+ports[i])
	}
	return p
}

// must runs a command as the operator.
func (c *trusted) must(args ...string) string {
	c.t.Helper()
	stdout, stderr, code := tender(c.t, c.env, args...)
	if code != 0 {
		c.t.Fatalf("%v: exit code %d: %s", args, code, stderr)
	}
	return strings.TrimSpace(stdout)
}

// TestEverybodyIsKnownByACertificate: three masters, two agents, a framework and a person need only one line more each
// than without certificates. An outsider has only the network.
func TestEverybodyIsKnownByACertificate(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	token := c.must("token", "create", "master", "--uses", "2")
	c.master("m2", token)
	c.master("m3", token)
	token = c.must("token", "create", "agent", "--uses", "2")
	var agents []string
	for _, name := range []string{"a1", "a2"} {
		port := strconv.Itoa(freePort(t))
		agents = append(agents, "127.0.0.1:"+port)
		start(t, c.env, "agent", "--data-dir", c.folder(name), "--http-port", port, "--hostname", name, "--resources", "cpus:1;mem:500;disk:100",
			"--join", token, "--master", c.masters[0])
	}
	until(t, "three masters", func() bool {
		followers := 0
		for _, m := range get(t, c.env, "masters").Items {
			if m.State == "follower" {
				followers++
			}
		}
		return followers == 2
	})
	until(t, "two agents", func() bool { return len(get(t, c.env, "agents", "--state", "RUNNING").Items) == 2 })

	stdout, stderr, code := tender(t, c.env, "run", "-q", "--", "echo", "hello")
	if code != 0 || stdout != "hello\n" {
		t.Errorf("run: exit code %d, %q, %q", code, stdout, stderr)
	}
	aFrameworkWorks(t, c.masters, c.must("token", "create", "framework", "--principal", "etl"))
	theJobManagerKnowsMastersAlone(t, c)
	tasksOutliveTheirLeader(t, c)
	anOutsiderGetsNothing(t, c, agents)
	atokenIsUsedUp(t, c, token)

	c.must("token", "revoke", "first")
	_, stderr, code = tender(t, []string{"XDG_CONFIG_HOME=" + c.folder("late"), "TENDER_MASTER="}, "login", "--master", c.masters[0],
		"--join", filepath.Join(c.folder("m1"), "operator.token"))
	if code == 0 || !strings.Contains(stderr, "revoked") {
		t.Errorf("a revoked token lets in: exit code %d, %q", code, stderr)
	}
	for _, state := range []string{c.must("token", "list"), c.must("get", "tokens"), c.must("describe", "token", "first")} {
		if !strings.Contains(state, "revoked") || strings.Contains(state, token) {
			t.Errorf("the tokens are\n%s", state)
		}
	}
	if state := c.must("get", "tokens") + c.must("events", "--kind", "token"); !strings.Contains(state, "person admin") || strings.Contains(state, "spiffe:") {
		t.Errorf("who has made the tokens is said as\n%s", state)
	}
}

// TestAnotherAuthorityWhileARunGoesOn uses a real quorum that was founded with an organisation's own authority. Nothing
// that runs is broken, everybody gets a certificate of the new authority, and earlier members are known after a
// restart.
func TestAnotherAuthorityWhileARunGoesOn(t *testing.T) {
	t.Parallel()
	c := &trusted{t: t, dir: t.TempDir()}
	c.env = []string{"XDG_CONFIG_HOME=" + filepath.Join(c.dir, "operator"), "TENDER_MASTER=", "TENDER_TOKEN="}
	certificate, key := ownAuthority(t, c.dir)
	c.must("init", "--data-dir", c.folder("m1"), "--ca-cert", certificate, "--ca-key", key)
	c.master("m1")
	c.logIn(c.env, filepath.Join(c.folder("m1"), "operator.token"))
	token := c.must("token", "create", "master", "--uses", "2")
	second := c.master("m2", token)
	c.master("m3", token)
	agentArgs := []string{"agent", "--data-dir", c.folder("a1"), "--http-port", strconv.Itoa(freePort(t)), "--resources", "cpus:1;mem:500;disk:100",
		"--recovery-timeout", "1m", "--join", c.must("token", "create", "agent"), "--master", c.masters[0]}
	agent := start(t, c.env, agentArgs...)
	agent.await(`"registered"`)
	until(t, "three masters", func() bool {
		return len(get(t, c.env, "masters").Items) == 3 && !strings.Contains(c.must("get", "masters"), "unreachable")
	})
	gate := c.folder("gate")
	run := start(t, c.env, "run", "--name", "long", "--", "sh", "-c", "echo up; while [ ! -e "+gate+" ]; do sleep 0.05; done; echo done")
	run.await("up")
	before := c.authority()

	c.must("ca", "rotate", "--overlap", "2h")
	after := c.authority()
	if after.Digest == before.Digest || after.FormerDigest != before.Digest {
		t.Fatalf("the authority was %+v and is %+v", before, after)
	}
	if _, stderr, code := tender(t, c.env, "ca", "rotate"); code == 0 || !strings.Contains(stderr, "two at a time are enough") {
		t.Errorf("another one at once: exit code %d, %q", code, stderr)
	}
	second.await("another authority signs the certificates")
	// A master, an agent and a leader come back to a quorum with the new authority. Those with the old one are known to
	// all.
	second.signal(syscall.SIGTERM)
	second.wait()
	second = start(t, c.env, "master", "--data-dir", c.folder("m2"))
	agent.signal(syscall.SIGTERM)
	agent.await("agent leaves; its tasks go on")
	agent.await("agent has ended")
	agent.wait()
	start(t, c.env, agentArgs...).await(`"registered"`)
	until(t, "m2 is back", func() bool {
		_, _, code := tender(t, c.env, "raft", "transfer-leader", "m2")
		return code == 0
	})
	second.await(`"leading"`)
	c.must("token", "create", "agent") // by a person whose certificate is of the old authority
	if person := c.must("login", "--name", "again", "--master", c.masters[1], "--join", c.must("token", "create", "operator", "--principal", "ann")); !strings.Contains(person, "ann") {
		t.Errorf("who joins now is %q", person)
	}
	aFrameworkWorks(t, c.masters, c.must("token", "create", "framework", "--principal", "etl"))
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run.await("done")
	if code := run.wait(); code != 0 || strings.Contains(run.stderr.String(), "LOST") {
		t.Errorf("the run: exit code %d, %s", code, &run.stderr)
	}
	if all := c.must("get", "tasks", "--all"); strings.Contains(all, "set apart") || strings.Contains(all, "LOST") {
		t.Errorf("the tasks are\n%s", all)
	}
	table := c.must("ca", "status")
	for _, want := range []string{"Former:", "/master/m", "/agent/", "/person/ann", "present", "Ends:"} {
		if want == "Ends:" { // the organisation's authority signs no more, and the cluster's own does not end
			if strings.Contains(table, "\n"+want) {
				t.Errorf("the authority ends:\n%s", table)
			}
		} else if !strings.Contains(table, want) {
			t.Errorf("%q is missing in\n%s", want, table)
		}
	}
	audited, err := os.ReadFile(filepath.Join(c.folder("m1"), "audit.log"))
	if err != nil || !strings.Contains(string(audited), "RotateAuthority") {
		t.Errorf("the rotation is not in the audit log: %v", err)
	}
}

// authorityView is the output of `ca status -o json`.
type authorityView struct {
	Digest       string `json:"digest"`
	FormerDigest string `json:"former_digest"`
}

func (c *trusted) authority() (view authorityView) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.must("ca", "status", "-o", "json")), &view); err != nil {
		c.t.Fatal(err)
	}
	return view
}

// ownAuthority writes the files of an organisation's authority.
func ownAuthority(t *testing.T, dir string) (certificateFile, keyFile string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "Example Ltd"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificateFile, keyFile = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key")
	if err := errors.Join(
		os.WriteFile(certificateFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return certificateFile, keyFile
}

// theJobManagerKnowsMastersAlone: people reach it through the masters, and nobody else reaches it.
func theJobManagerKnowsMastersAlone(t *testing.T, c *trusted) {
	t.Helper()
	token, port := c.must("token", "create", "framework", "--principal", "jobs"), strconv.Itoa(freePort(t))
	manager := start(t, []string{"TENDER_TOKEN=" + token, "TENDER_MASTER=" + strings.Join(c.masters, ",")}, "jobs", "--port", port)
	until(t, "the job manager answers people", func() bool {
		_, _, code := tender(t, c.env, "job", "list")
		return code == 0
	})
	if err := callWith(t, "127.0.0.1:"+port, insecure.NewCredentials()); !strings.Contains(err.Error(), "Unavailable") {
		t.Errorf("who comes to the job manager in plain text is told %v", err)
	}
	_, stderr, code := tender(t, c.env, "jobs", "--port", port)
	if code != 1 || !strings.Contains(stderr, "127.0.0.1:"+port+": the port is in use") {
		t.Errorf("a second manager at the same port: exit code %d, %q", code, stderr)
	}
	manager.signal(syscall.SIGTERM)
	manager.await("job manager has ended; jobs and their tasks go on")
	if code := manager.wait(); code != 0 {
		t.Errorf("a manager that was told to stop: exit code %d", code)
	}
}

// tasksOutliveTheirLeader: the next leader accepts the receipts of the one before, and sets no task apart (R40).
func tasksOutliveTheirLeader(t *testing.T, c *trusted) {
	run := start(t, c.env, "run", "--name", "sleeper", "--", "sh", "-c", "echo up; exec sleep 1000")
	run.await("up")
	c.must("raft", "transfer-leader")
	until(t, "the next leader counts the task", func() bool { return len(get(t, c.env, "tasks", "--state", "RUNNING").Items) == 1 })
	if all := c.must("get", "tasks", "--all"); strings.Contains(all, "set apart") {
		t.Errorf("tasks after a failover:\n%s", all)
	}
	c.must("kill", "sleeper.0")
	run.wait()
}

// worker runs one task and reads the file that it has written.
type worker struct {
	client *framework.Client
	read   chan error
	text   bytes.Buffer
}

func (w *worker) Subscribed(_ context.Context, client *framework.Client) error {
	w.client = client
	return nil
}

func (w *worker) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	task := api.Task{ID: "once", Resources: api.NewResources(api.Resource{Label: api.Label{Name: "cpus"}, Scalar: 100}), Command: &api.Command{Shell: "printf done > result"}}
	return []api.Answer{api.Launch(offers[0], task)}
}

func (w *worker) Update(ctx context.Context, status api.Status) error {
	if status.State != api.TaskFinished {
		return nil
	}
	w.read <- w.client.ReadFile(ctx, "once", "result", &w.text, 100)
	return nil
}

func aFrameworkWorks(t *testing.T, masters []string, token string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &worker{read: make(chan error, 1)}
	ended := make(chan error, 1)
	go func() {
		ended <- framework.Run(ctx, framework.Config{Masters: masters, Name: "etl", Token: token, TeardownAtEnd: true}, w)
	}()
	select {
	case err := <-w.read:
		if err != nil || w.text.String() != "done" {
			t.Errorf("the framework has read %q, %v", w.text.String(), err)
		}
	case err := <-ended:
		t.Fatalf("the framework has ended: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the framework ended with %v", err)
	}
}

// anOutsiderGetsNothing: with the network, but without a token, nobody gets further than a handshake.
func anOutsiderGetsNothing(t *testing.T, c *trusted, agents []string) {
	t.Helper()
	key := trust.NewKey()
	other, err := key.Authority()
	if err != nil {
		t.Fatal(err)
	}
	pass, err := other.Issue(trust.Identity{Kind: trust.Master, Name: "m1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	stranger := trust.NewHolder(pass)
	for _, address := range append(append([]string{c.masters[0], c.raft[0]}, agents...), c.http[0]) {
		if conn, err := stranger.Dialer(transport.DialTCP)(t.Context(), address); err == nil {
			t.Errorf("%s: who has the certificate of another cluster met %v", address, trust.PeerOf(conn))
		}
	}
	for _, address := range []string{c.masters[0], c.raft[0]} {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err == nil { // the server's refusal comes with the first answer
			_, err = conn.Read(make([]byte, 1))
		}
		if alert := tls.AlertError(0); !errors.As(err, &alert) && !strings.Contains(err.Error(), "certificate required") {
			t.Errorf("%s: who has no certificate is told %v", address, err)
		}
	}
	if err := callWith(t, c.masters[0], credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, ServerName: "join.tender"})); !strings.Contains(err.Error(), "Unauthenticated") {
		t.Errorf("who pretends to have a token is told %v", err)
	}
	stranging := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 403, "/v1/ListAgents": 403, "/debug/pprof/": 403} {
		answer, err := stranging.Get("https://" + c.http[0] + path)
		if err != nil {
			t.Error(err)
			continue
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: a stranger is answered %d, want %d", path, answer.StatusCode, want)
		}
	}
	if answer, err := http.Get("http://" + c.http[0] + "/v1/ListAgents"); err == nil {
		_ = answer.Body.Close()
		t.Errorf("in plain text the master answers %s", answer.Status)
	}
	nobody := []string{"XDG_CONFIG_HOME=" + c.folder("nobody"), "TENDER_MASTER=" + c.masters[0], "TENDER_TOKEN="}
	if _, stderr, code := tender(t, nobody, "get", "agents"); code == 0 || !strings.Contains(stderr, "tender login") {
		t.Errorf("a command without a context: exit code %d, %q", code, stderr)
	}
	agent := start(t, nobody, "agent", "--insecure", "--data-dir", c.folder("a4"), "--http-port", strconv.Itoa(freePort(t)))
	agent.await("come with a token")
	agent.signal(syscall.SIGTERM)
	agent.wait()
	err = framework.Run(t.Context(), framework.Config{Masters: c.masters[:1], Name: "open", Token: framework.NoToken, ConnectTimeout: 3 * time.Second}, &worker{})
	if err == nil || !strings.Contains(err.Error(), "come with a token") {
		t.Errorf("a framework without a token ends with %v", err)
	}
}

// callWith returns the result of a call by a client that knows nothing of passes.
func callWith(t *testing.T, address string, how credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(how))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = apiv1.NewOperatorServiceClient(conn).ListAgents(t.Context(), &apiv1.ListRequest{})
	if err == nil {
		return errors.New("nothing: it is answered")
	}
	return err
}

func atokenIsUsedUp(t *testing.T, c *trusted, token string) {
	t.Helper()
	_, stderr, code := tender(t, c.env, "agent", "--data-dir", c.folder("a3"), "--http-port", strconv.Itoa(freePort(t)), "--join", token, "--master", c.masters[0])
	if code == 0 || !strings.Contains(stderr, "used up") {
		t.Errorf("a third agent joins by a token of two uses: exit code %d, %q", code, stderr)
	}
}

// TestKilledWhileTheKeyWasWritten: what is left of it does not make the folder one that is in use, and is removed.
func TestKilledWhileTheKeyWasWritten(t *testing.T) {
	dir := t.TempDir()
	killed := filepath.Join(dir, "."+trust.KeyFile+"-1")
	for _, name := range []string{killed, filepath.Join(dir, trust.FirstTokenFile)} {
		if err := os.WriteFile(name, []byte("of a key that was never there"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, stderr, code := (&shell{}).run(t, "init", "--data-dir", dir); code != 0 {
		t.Fatalf("init: %d, %s", code, stderr)
	}
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", killed, err)
	}
}

// TestInsecureAndJoiningExcludeEachOther: this also holds for a folder that has joined before.
func TestInsecureAndJoiningExcludeEachOther(t *testing.T) {
	dir := t.TempDir()
	s := &shell{}
	if _, stderr, code := s.run(t, "init", "--data-dir", dir); code != 0 {
		t.Fatalf("init: %d, %s", code, stderr)
	}
	if _, stderr, code := s.run(t, "init", "--data-dir", dir); code == 0 || !strings.Contains(stderr, "already") {
		t.Errorf("a second init: %d, %s", code, stderr)
	}
	for _, file := range []string{trust.KeyFile, "operator.token"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", file, info.Mode(), err)
		}
	}
	for _, args := range [][]string{
		{"master", "--data-dir", dir, "--insecure"},
		{"master", "--data-dir", t.TempDir(), "--insecure", "--join", "x"},
		{"agent", "--data-dir", t.TempDir(), "--insecure", "--join", "x"},
	} {
		if _, stderr, code := s.run(t, args...); code != 2 || !strings.Contains(stderr, "--insecure") {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
}

// TestAMasterThatWouldBeOpenIsRefused: founders without a key, and a master that ran without one so far, must be told
// to be insecure.
func TestAMasterThatWouldBeOpenIsRefused(t *testing.T) {
	s := &shell{}
	fresh := filepath.Join(t.TempDir(), "m1")
	_, stderr, code := s.run(t, "master", "--data-dir", fresh, "--id", "m1", "--peers", "m1=127.0.0.1:1,m2=127.0.0.1:2,m3=127.0.0.1:3")
	if code == 0 || !strings.Contains(stderr, "tender init --data-dir "+fresh) || !strings.Contains(stderr, "--insecure") {
		t.Errorf("one of three founders: exit code %d, %q", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(fresh, trust.KeyFile)); err == nil {
		t.Error("one of three founders has made a key that the others do not have")
	}

	if _, stderr, code := s.run(t, "master", "--data-dir", fresh, "--id", "m2", "--master", "127.0.0.1:1"); code != 2 || !strings.Contains(stderr, "--join FILE") {
		t.Errorf("one that forgot its token: exit code %d, %q", code, stderr)
	}
	folder := t.TempDir()
	args := []string{"master", "--data-dir", folder, "--http-port", "0", "--grpc-port", strconv.Itoa(freePort(t)), "--raft-port", strconv.Itoa(freePort(t))}
	open := start(t, nil, append(args, "--insecure")...)
	open.await("everybody who reaches a master can run commands on every agent")
	open.await(`"leading"`)
	open.signal(syscall.SIGTERM)
	open.wait()
	if _, stderr, code := s.run(t, "init", "--data-dir", folder); code != 1 || !strings.Contains(stderr, "not empty") {
		t.Errorf("a key for a folder whose cluster has none: exit code %d, %q", code, stderr)
	}
	again := start(t, nil, args...) // what was said once is kept
	again.await("everybody who reaches a master can run commands on every agent")
	again.await(`"leading"`)
	again.signal(syscall.SIGTERM)
	again.wait()
}

// TestAMasterThatFindsAPortTakenLeavesNoKey: the next start in its folder is like the first one, and the token of a
// master that was to join is not used up.
func TestAMasterThatFindsAPortTakenLeavesNoKey(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	_, taken, _ := strings.Cut(c.masters[0], ":")
	invite := c.must("token", "create", "master")
	masterIn := func(folder string, more ...string) []string {
		args := []string{"master", "--data-dir", c.folder(folder)}
		for _, name := range []string{"--grpc-port", "--http-port", "--raft-port"} {
			args = append(args, name, strconv.Itoa(freePort(t)))
		}
		return append(args, more...)
	}
	join := []string{"--id", "m2", "--join", invite, "--master", c.masters[0]}
	for _, port := range []string{"--grpc-port=" + taken, "--http-port=" + taken, "--raft-port=" + taken, "--dns=127.0.0.1:" + taken} {
		for _, how := range [][]string{join, {"--insecure"}, nil} {
			_, stderr, code := tender(t, nil, masterIn("m2", append(how, port)...)...)
			if code != 1 || !strings.Contains(stderr, "port is in use") || !strings.Contains(stderr, ":"+taken) {
				t.Errorf("%s %v: exit code %d, %q", port, how, code, stderr)
			}
			for _, file := range []string{trust.KeyFile, "operator.token"} {
				if _, err := os.Stat(filepath.Join(c.folder("m2"), file)); err == nil {
					t.Fatalf("%s %v: %s is left behind", port, how, file)
				}
			}
		}
	}
	_, stderr, code := tender(t, nil, masterIn("m2", "--join", invite, "--master", c.masters[0])...)
	if code != 2 || !strings.Contains(stderr, "--id is missing") {
		t.Errorf("one that joins without a name: exit code %d, %q", code, stderr)
	}
	lone := start(t, nil, masterIn("m2")...) // it founds a cluster, as if it had never been started
	lone.await("login --master")
	lone.await(`"leading"`)
	start(t, c.env, masterIn("m3", join...)...)
	until(t, "the one that joins is in the quorum", func() bool { return strings.Contains(c.must("raft", "peers"), "m2") })
}
