package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// needsProgram skips the test on machines without a program.
func needsProgram(t *testing.T, program, pkg string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed: apt-get install %s", program, pkg)
	}
}

// writer writes numbered keys into a redis-server, one after the other, and knows which were acknowledged.
type writer struct {
	file  string // says where the server is
	acked atomic.Int64
	conn  net.Conn
	in    *bufio.Reader
}

// ask sends a command and returns the server's answer; it connects when it has to.
func (w *writer) ask(command string) (string, error) {
	if w.conn == nil {
		address, err := os.ReadFile(w.file)
		if err != nil {
			return "", err
		}
		if w.conn, err = net.Dial("tcp", strings.TrimSpace(string(address))); err != nil {
			w.conn = nil
			return "", err
		}
		w.in = bufio.NewReader(w.conn)
	}
	_, err := fmt.Fprint(w.conn, command, "\r\n")
	answer := ""
	if err == nil {
		answer, err = w.in.ReadString('\n')
	}
	if err != nil {
		_ = w.conn.Close() // it is broken
		w.conn = nil
	}
	return strings.TrimSpace(answer), err
}

// process returns the ID of the server's process, which hides its environment, and so the test that has started it.
func (w *writer) process(t *testing.T) int {
	t.Helper()
	_, err := w.ask("INFO server")
	for err == nil {
		var line string
		line, err = w.in.ReadString('\n')
		if id, found := strings.CutPrefix(strings.TrimSpace(line), "process_id:"); found {
			pid, err := strconv.Atoi(id)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("the server does not tell its process: %v", err)
	return 0
}

// run writes until stop is closed. A write is acknowledged once; one without an answer is repeated.
func (w *writer) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		n := strconv.FormatInt(w.acked.Load()+1, 10)
		if answer, err := w.ask("SET key-" + n + " value-" + n); err == nil && answer == "+OK" {
			w.acked.Add(1)
		}
	}
}

// TestRedisExample: a real redis-server on a reserved volume, under writes, while its agent, the scheduler, the leading
// master and the server itself are killed (kill -9): every write that was acknowledged is there.
func TestRedisExample(t *testing.T) {
	needsProgram(t, "redis-server", "redis-server")
	needsBinary(t)
	program := buildExample(t, "redis")
	d := startDev(t, "--masters", "3", "--agents", "0", "--master-processes", "--no-heal")
	data := filepath.Join(t.TempDir(), "agent")
	t.Cleanup(func() { nothingLeft(t, data) })
	port := freePort(t)
	args := []string{"agent", "--data-dir", data, "--http-port", strconv.Itoa(freePort(t)), "--resources",
		fmt.Sprintf("cpus:2;mem:1024;disk:1000;ports:[%d-%d]", port, port), "--recovery-timeout", "1m"}
	agent := start(t, d.env, args...)
	file := filepath.Join(t.TempDir(), "redis.addr")
	instance := func() *proc { return launchProgram(t, program, d.env, true, []string{"-file", file}) }
	active := instance()
	active.await("redis-1 RUNNING")
	w := &writer{file: file}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() { w.run(stop) })
	end := sync.OnceFunc(func() {
		close(stop)
		writing.Wait()
	})
	defer end()
	more := func(after string) {
		t.Helper()
		before := w.acked.Load()
		until(t, "writes go on "+after, func() bool { return w.acked.Load() > before+20 })
	}
	more("at first")

	agent.signal(syscall.SIGKILL)
	agent.wait()
	more("without the agent")
	start(t, d.env, args...)

	second := instance()
	active.signal(syscall.SIGKILL)
	active.wait()
	second.await("redis-1 RUNNING")
	more("with another scheduler")

	before := leader(t, d)
	for _, master := range d.Masters {
		if master.GRPC == before {
			if err := syscall.Kill(master.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "another master leads", func() bool { now := leader(t, d); return now != "" && now != before })
	more("with another leader")

	if err := syscall.Kill((&writer{file: file}).process(t), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	second.await("redis-2 RUNNING")
	more("after the server's own end")

	end()
	for n := range w.acked.Load() {
		if length, err := w.ask(fmt.Sprintf("STRLEN key-%d", n+1)); err != nil || length != fmt.Sprintf(":%d", len(fmt.Sprintf("value-%d", n+1))) {
			t.Fatalf("write %d of %d was acknowledged and is not there: %q, %v", n+1, w.acked.Load(), length, err)
		}
	}
	if out, _, code := tender(t, d.env, "volume", "list"); code != 0 || !strings.Contains(out, "redis-data") {
		t.Errorf("the volume is not listed: %s", out)
	}
	second.signal(syscall.SIGKILL) // so that it does not start the server again
	second.wait()
	_, _ = w.ask("SHUTDOWN NOSAVE") // it answers by its end
}

// TestMPIExample: a real MPICH starts four processes as a gang, which find each other.
func TestMPIExample(t *testing.T) {
	t.Parallel()
	needsProgram(t, "mpiexec.mpich", "mpich")
	needsBinary(t)
	program := buildExample(t, "mpi")
	d := startDev(t, "--agents", "2", "--agent-resources", "cpus:2;mem:1024")
	gang := launchProgram(t, program, d.env, true, []string{"-n", "4", "--", "sh", "-c", "echo rank $PMI_RANK of $PMI_SIZE"})
	if code := gang.wait(); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
	for rank := range 4 {
		if line := fmt.Sprintf("rank %d of 4\n", rank); !strings.Contains(gang.stdout.String(), line) {
			t.Errorf("it does not say %q", line)
		}
	}
	if out, _, _ := tender(t, d.env, "get", "tasks"); strings.Contains(out, "mpi-") {
		t.Errorf("after its end there is\n%s", out)
	}
	failing := launchProgram(t, program, d.env, true, []string{"-n", "2", "--", "false"})
	if code := failing.wait(); code == 0 {
		t.Error("a program that fails has ended well")
	}
}

// TestDaskExample: a real Dask computes on a pool that grows with its work and shrinks to nothing.
func TestDaskExample(t *testing.T) {
	t.Parallel()
	needsProgram(t, "dask-scheduler", "python3-distributed")
	needsBinary(t)
	program := buildExample(t, "dask")
	d := startDev(t, "--agents", "2")
	pool := launchProgram(t, program, d.env, false, []string{"-max", "2"})
	var address string
	until(t, "the scheduler of Dask is up", func() bool {
		var tasks struct {
			Items []struct {
				State   string
				Ports   map[string]int
				Healthy *bool
			}
		}
		out, _, _ := tender(t, d.env, "get", "tasks", "-o", "json")
		if err := json.Unmarshal([]byte(out), &tasks); err != nil || len(tasks.Items) == 0 || tasks.Items[0].Healthy == nil || !*tasks.Items[0].Healthy {
			return false
		}
		address = fmt.Sprintf("127.0.0.1:%d", tasks.Items[0].Ports["tcp"])
		return true
	})
	sum := exec.Command("/usr/bin/python3", "-c", "import sys, time; from dask.distributed import Client\n"+
		"def square(n):\n  time.sleep(0.5)\n  return n * n\n"+
		"client = Client(sys.argv[1])\nprint(sum(client.gather(client.map(square, range(24)))))", address)
	if out, err := sum.CombinedOutput(); err != nil || !strings.Contains(string(out), "4324") {
		t.Fatalf("Dask says %v: %s", err, out)
	}
	pool.await("2 workers at tcp://" + address)
	pool.await("0 workers at tcp://" + address)
	pool.signal(syscall.SIGINT)
	pool.wait()
}
