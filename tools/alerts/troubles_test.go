package alerts

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// epoch is the moment of the first scrape, in seconds since 1970, as the story of a cluster tells the time.
const epoch = 2e9

// rewritten are the numbers in rules that a cluster of minutes does not reach.
var rewritten = map[string][2]string{"TenderNoSnapshot": {"> 20000", "> 0"}, "TenderSlowDisk": {"> 0.5", "> 0.2"}}

// elsewhere are the alerts that fire on written series only: why nobody can make their trouble here, and where a master
// is in that trouble.
var elsewhere = map[string]struct{ why, file, text string }{
	"TenderFault":         {"only a fault of our own does it", "master/stuck_test.go", "tender_loop_stuck_total 1"},
	"TenderTasksSetApart": {"only an agent that lies does it, and ours does not", "master/core/testdata/receipts.txt", "tasks set apart agent=a1"},
}

// TestEveryAlertFiresInACluster: but those of elsewhere.
func TestEveryAlertFiresInACluster(t *testing.T) {
	fired := ""
	for _, file := range []string{"cluster_test.go", "troubles_test.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`\.fire\([^)]*\)|alerts = append\([^)]*\)|alerts := [^\n]*`).FindAllString(string(text), -1) {
			fired += call
		}
	}
	for _, r := range readRules(t) {
		there, not := elsewhere[r.Alert]
		if is := strings.Contains(fired, `"`+r.Alert+`"`); is == not {
			t.Errorf("%s fires in a cluster: %v, and is said not to: %v", r.Alert, is, not)
		}
		if text, err := os.ReadFile(filepath.Join("../..", there.file)); not && (err != nil || !strings.Contains(string(text), there.text)) {
			t.Errorf("%s: %s has no %q (%v)", r.Alert, there.file, there.text, err)
		}
	}
}

// TestAlertsFireWithCertificates: an agent whose certificate nobody renews, and one of a version that the masters do not
// take.
func TestAlertsFireWithCertificates(t *testing.T) {
	if _, err := os.Stat(program); err != nil {
		t.Skip("there is no bin/tender; make build")
	}
	c := &cluster{t: t, dir: t.TempDir(), series: make(map[string][]string), names: namesAsked(t)}
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(c.dir, "operator"))
	port, http := c.free(), c.free()
	c.addresses = []string{"127.0.0.1:" + port}
	master := c.startAs(c.built("v1.0.0"), "master", "--data-dir", filepath.Join(c.dir, "m0"), "--id", "m0", "--grpc-port", port, "--http-port", http,
		"--raft-port", c.free(), "--agent-certificate-life", "10s")
	var err error
	for range 600 { // until it leads
		err = c.command("login", "--master", c.addresses[0], "--join", filepath.Join(c.dir, "m0", "operator.token")).Run()
		if err == nil {
			break
		}
		<-time.After(scrapePause)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.identify()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	join := func(of, name string) string {
		port := c.free()
		c.startAs(of, "agent", "--data-dir", filepath.Join(c.dir, name), "--http-port", port, "--hostname", name, "--isolation", "none",
			"--task-user", me.Username, "--resources", "cpus:1;mem:64", "--master", c.addresses[0], "--join", strings.TrimSpace(string(c.tender("token", "create", "agent"))))
		return "127.0.0.1:" + port
	}
	c.scraped = []target{{"tender-master", "m0", "127.0.0.1:" + http}}
	c.last(20)
	join(c.built("v1.9.0"), "other")
	c.until("a version to be refused", "tender_versions_refused_total", "", func(sum float64) bool { return sum > 0 })
	c.last(1)
	c.fire("TenderVersionsRefused")

	c.scraped = []target{{"tender-agent", "a0", join(c.built("v1.0.0"), "a0")}}
	c.until("an agent with a certificate", "tender_certificate_expires_timestamp_seconds", "", func(sum float64) bool { return sum > 0 })
	c.last(20)
	c.kill(master)
	c.until("the last quarter of its life", "tender_certificate_expires_timestamp_seconds", "", func(ends float64) bool {
		return ends > 0 && time.Until(time.UnixMilli(int64(1000*ends))) < 2*time.Second
	})
	c.last(21)
	c.fire("TenderCertificateEnds")
}

// built returns the program as a build of this version.
func (c *cluster) built(version string) string {
	c.t.Helper()
	name := filepath.Join(c.dir, "tender-"+version)
	if _, err := os.Stat(name); err == nil {
		return name
	}
	build := exec.Command("go", "build", "-C", "../..", "-trimpath", "-tags", "grpcnotrace",
		"-ldflags", "-X github.com/tenderhq/tender/internal/version.Version="+version, "-o", name, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		c.t.Fatalf("building %s: %v: %s", version, err, out)
	}
	return name
}

// identify has scrapes come from the person who has logged in.
func (c *cluster) identify() {
	c.t.Helper()
	found, err := filepath.Glob(filepath.Join(c.dir, "operator", "*", "*", "*.pem"))
	if err != nil || len(found) != 1 {
		c.t.Fatalf("the certificates of the person are %q (%v)", found, err)
	}
	own, err := tls.LoadX509KeyPair(found[0], found[0])
	if err != nil {
		c.t.Fatal(err)
	}
	c.scheme = "https"
	c.client.Transport = &http.Transport{
		TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{own}, InsecureSkipVerify: true}, // what is asked is whether it answers
		DisableKeepAlives: true,
	}
}

// stall stops all followers for a while, as slow disks would, until a commit has taken longer than the rule allows.
func (c *cluster) stall() {
	c.t.Helper()
	slow := func() float64 {
		return c.sum("tender_raft_commit_seconds_bucket", `le="+Inf"`) - c.sum("tender_raft_commit_seconds_bucket", `le="0.256"`)
	}
	before := slow()
	over := make(chan struct{})
	var writers sync.WaitGroup
	defer writers.Wait()
	defer close(over)
	for n := range 4 { // so that something is written whenever the followers stand still
		writers.Go(func() {
			for weight := 2 + n; ; weight += 4 { // another one each time, or nothing is written
				select {
				case <-over:
					return
				default:
					_ = c.command("weight", "eng", fmt.Sprint(weight%10_000+1)).Run()
				}
			}
		})
	}
	for range 100 {
		leader := c.leader()
		signal := func(what syscall.Signal) {
			for i, master := range c.masters {
				if fmt.Sprint("m", i) != leader {
					_ = syscall.Kill(-master.Process.Pid, what)
				}
			}
		}
		signal(syscall.SIGSTOP)
		<-time.After(650 * time.Millisecond) // less than after what a leader gives up
		signal(syscall.SIGCONT)
		if slow() > before {
			return
		}
	}
	c.t.Fatal("no commit has taken longer than a quarter of a second")
}

// crowd opens connections to a master, until that has closed some.
func (c *cluster) crowd() {
	c.t.Helper()
	before := c.sum("tender_connections_refused_total", "")
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	c.until("a master to close connections", "tender_connections_refused_total", "", func(sum float64) bool {
		for range 1100 {
			if conn, err := net.Dial("tcp", c.addresses[0]); err == nil {
				open = append(open, conn)
			}
		}
		return sum > before
	})
}

// age has the newest snapshot of a master be of last week.
func (c *cluster) age(id string) {
	c.t.Helper()
	folder := filepath.Join(c.dir, id, "raft", "snapshots")
	made := time.Now().Add(-8 * 24 * time.Hour).UnixMilli()
	one := filepath.Join(folder, fmt.Sprintf("1-1-%d", made))
	if err := errors.Join(os.MkdirAll(one, 0o700), os.WriteFile(filepath.Join(one, "state.bin"), nil, 0o600)); err != nil {
		c.t.Fatal(err)
	}
	c.until("an old snapshot", "tender_raft_snapshot_timestamp_seconds", `instance="`+id+`"`, func(sum float64) bool { return sum > 0 })
}
