package adapter

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/mesos"
)

// TestProgram starts a program as an old executor is started: its files come by HTTP without a checksum, it works in its
// sandbox, and it leads a process group of its own in the session of its agent.
func TestProgram(t *testing.T) {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "#!/bin/sh\necho \"$MESOS_EXECUTOR_ID $1 $(pwd -P)\" > said\nread line < pipe\nexit 7\n")
	}))
	defer shop.Close()
	sandbox, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(sandbox, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	command := Command{
		Argv: []string{"./run", "one"}, Env: []string{"PATH=/bin:/usr/bin", "MESOS_EXECUTOR_ID=old"}, Sandbox: sandbox,
		URIs: []api.URI{{Source: shop.URL + "/run", Executable: true}},
	}
	p, err := begin(t.Context(), command)
	if err != nil {
		t.Fatal(err)
	}
	feed, err := os.OpenFile(pipe, os.O_WRONLY, 0) // the program reads
	if err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(p.PID()); err != nil || group != p.PID() {
		t.Errorf("group %d of process %d, %v", group, p.PID(), err)
	}
	if said, err := os.ReadFile(filepath.Join(sandbox, "said")); err != nil || string(said) != "old one "+sandbox+"\n" {
		t.Errorf("said %q, %v", said, err)
	}
	fmt.Fprintln(feed, "go")
	feed.Close()
	if code := p.Wait(); code != 7 {
		t.Errorf("exit code %d", code)
	}

	command.URIs, command.Argv = nil, []string{"sh", "-c", "sleep 1000 & read line < pipe"}
	if p, err = begin(t.Context(), command); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if code := p.Wait(); code != 128+int(syscall.SIGKILL) {
		t.Errorf("exit code %d", code)
	}
	for _, wrong := range []Command{
		{Argv: []string{"no-such-program"}, Sandbox: sandbox},
		{Argv: []string{"./run"}, Sandbox: sandbox + "/missing"},
		{Argv: []string{"./run"}, Sandbox: sandbox, URIs: []api.URI{{Source: shop.URL + "/.."}}},
	} {
		if _, err := begin(t.Context(), wrong); err == nil {
			t.Errorf("%v was started", wrong)
		}
	}
}

// TestFetch: a command's files are brought as its framework has described them.
func TestFetch(t *testing.T) {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/none" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "content")
	}))
	defer shop.Close()
	sandbox := t.TempDir()
	if err := Fetch(t.Context(), `{"uris":[{"value":"`+shop.URL+`/a?b=c","output_file":"as"},{"value":"`+shop.URL+`/run","executable":true}]}`, sandbox); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"as": 0, "run": 0o100} {
		info, err := os.Stat(filepath.Join(sandbox, name))
		if err != nil || info.Mode()&0o100 != mode || info.Size() != int64(len("content")) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for _, wrong := range []string{"{", `{"uris":[{"value":"` + shop.URL + `/none"}]}`, `{"uris":[{"value":"hdfs://host/a"}]}`} {
		if err := Fetch(t.Context(), wrong, sandbox); err == nil {
			t.Errorf("%s was fetched", wrong)
		}
	}
}

// TestPeers: the port is for the processes of its own user, and those of root.
func TestPeers(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := checkPeer(conn); err != nil {
		t.Errorf("its own process: %v", err)
	}
	far := *conn.RemoteAddr().(*net.TCPAddr) //nolint:forcetypeassert // it is TCP
	uid, err := ownerOf(&far, conn.LocalAddr().(*net.TCPAddr))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the kernel does not tell whose a connection is")
	}
	if err != nil || uid != os.Getuid() {
		t.Errorf("user %d, %v", uid, err)
	}
	far.Port = 1
	if _, err := ownerOf(&far, conn.LocalAddr().(*net.TCPAddr)); err == nil {
		t.Error("a connection that nobody has, has an owner")
	}
}

func TestDurations(t *testing.T) {
	var said []string
	for _, d := range []time.Duration{0, 5 * time.Second, 90 * time.Second, 15 * time.Minute, 1500 * time.Microsecond, 36 * time.Hour, 14 * 24 * time.Hour} {
		said = append(said, mesos.FormatDuration(d))
	}
	if got := strings.Join(said, " "); got != "0ns 5secs 1.5mins 15mins 1.5ms 1.5days 2weeks" {
		t.Error(got)
	}
}
