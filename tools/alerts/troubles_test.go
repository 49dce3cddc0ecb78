package alerts

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// began is the moment of the first scrape, in seconds since 1970, as the story of a cluster tells the time.
const began = 2e9

// rewritten are the numbers in rules that a cluster of minutes does not reach.
var rewritten = map[string][2]string{"TenderSlowDisk": {"> 0.5", "> 0.2"}}

// elsewhere are the alerts that fire on written series only: why nobody can make their trouble here, and where a master
// is in that trouble.
var elsewhere = map[string]struct{ why, file, text string }{
	"TenderFault":           {"only a fault of our own does it", "master/stuck_test.go", "tender_loop_stuck_total 1"},
	"TenderCertificateEnds": {"it takes a cluster with certificates, which this is not", "tools/alerts/testdata/troubles", "TenderCertificateEnds"},
	"TenderVersionsRefused": {"it takes builds of two versions", "master/core/testdata/ill.txt", "version refused"},
	"TenderNoSnapshot":      {"it takes a week without a snapshot, and 20,000 entries", "tools/alerts/testdata/troubles", "TenderNoSnapshot"},
	"TenderTasksSetApart":   {"only an agent that lies does it, and ours does not", "master/core/testdata/receipts.txt", "tasks set apart agent=a1"},
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
