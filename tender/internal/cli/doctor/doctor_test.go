package doctor

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tenderhq/tender/agent/membership"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/datafolder"
)

// TestJudge: each measure has what is good, what is a warning, and what is bad; whatever is not good says what to do.
func TestJudge(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	syncs := func(took time.Duration) Finding {
		return judgeSync("disk", "speed", []time.Duration{time.Hour, 0, took})
	}
	room := func(r datafolder.Room, i int) Finding { return judgeRoom("disk", r)[i] }
	ends := func(in time.Duration) Finding {
		return judgeEnd("a", "certificate", now.Add(in), now, 30*24*time.Hour, "renew it")
	}
	const gigabyte, half = 1 << 30, time.Second / 2
	for _, c := range []struct {
		name string
		is   Finding
		want State
	}{
		{"a fast disk", syncs(time.Millisecond), Good}, {"a slow disk", syncs(20 * time.Millisecond), Warn}, {"a dead slow disk", syncs(time.Second), Bad},
		{"room", room(datafolder.Room{Free: 100 * gigabyte, All: 200 * gigabyte}, 0), Good},
		{"little room", room(datafolder.Room{Free: gigabyte, All: 200 * gigabyte}, 0), Warn},
		{"no room", room(datafolder.Room{Free: 1 << 20, All: 200 * gigabyte}, 0), Bad},
		{"inodes", room(datafolder.Room{Free: gigabyte, InodesFree: 30_000, Inodes: 100_000}, 1), Good},
		{"few inodes", room(datafolder.Room{Free: gigabyte, InodesFree: 1000, Inodes: 100_000}, 1), Warn},
		{"no inodes", room(datafolder.Room{Free: gigabyte, InodesFree: 10, Inodes: 100_000}, 1), Bad},
		{"files", judgeLimit("m", "open files", 65536, filesLeast, "raise it"), Good},
		{"some files", judgeLimit("m", "open files", 20000, filesLeast, "raise it"), Warn},
		{"few files", judgeLimit("m", "open files", 1024, filesLeast, "raise it"), Bad},
		{"the same clock", judgeClock("m1", 400*time.Millisecond, half), Good},
		{"a clock ahead", judgeClock("m1", 5*time.Second, half), Warn},
		{"a clock behind", judgeClock("m1", -5*time.Minute, half), Bad},
		{"a slow answer", judgeClock("m1", 5*time.Second, 4*time.Second), Good},
		{"a certificate", ends(20 * 24 * time.Hour), Good}, {"one that ends", ends(24 * time.Hour), Warn}, {"one that has ended", ends(-time.Hour), Bad},
		{"three masters", judgeQuorum(masters("leader", "follower", "follower")), Good},
		{"a single master", judgeQuorum(masters("leader")), Warn},
		{"two and one that learns", judgeQuorum(masters("leader", "follower", "non-voter")), Warn},
		{"one is silent", judgeQuorum(masters("leader", "follower", "unreachable")), Bad},
	} {
		if c.is.State != c.want {
			t.Errorf("%s: %+v, want %s", c.name, c.is, c.want)
		}
		if c.is.Is == "" || c.is.Right == "" || (c.is.Do == "") != (c.want == Good) {
			t.Errorf("%s: it must say what is, what is right, and what to do if anything: %+v", c.name, c.is)
		}
	}
}

func masters(states ...string) (all []*apiv1.MasterView) {
	for i, state := range states {
		all = append(all, &apiv1.MasterView{Id: string(rune('1' + i)), State: state})
	}
	return all
}

// TestVersionsOfMasters: a master of the next version is an upgrade; one of the version after that can't be.
func TestVersionsOfMasters(t *testing.T) {
	for _, c := range []struct {
		versions []string
		want     State
	}{{nil, Good}, {[]string{"v0.4.0", "v0.5.1"}, Warn}, {[]string{"v0.4.0", "v0.6.0"}, Bad}} {
		var all []*apiv1.MasterView
		for _, v := range c.versions {
			all = append(all, &apiv1.MasterView{Version: v})
		}
		if is := judgeVersions(all); is.State != c.want {
			t.Errorf("%v: %+v", c.versions, is)
		}
	}
}

// TestMetrics: what a master says of its disk, its descriptors and its log is judged.
func TestMetrics(t *testing.T) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(`
# TYPE tender_data_free_bytes gauge
tender_data_free_bytes 1e9
# TYPE tender_data_free_inodes gauge
tender_data_free_inodes 100
# TYPE process_max_fds gauge
process_max_fds 65536
# TYPE tender_raft_commit_seconds histogram
tender_raft_commit_seconds_bucket{le="0.1"} 90
tender_raft_commit_seconds_bucket{le="0.5"} 99
tender_raft_commit_seconds_bucket{le="+Inf"} 100
tender_raft_commit_seconds_sum 9
tender_raft_commit_seconds_count 100
`))
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]State{}
	for _, f := range judgeMetrics("master m1", families) {
		said[f.What] = f.State
	}
	for what, want := range map[string]State{"disk room": Warn, "disk inodes": Bad, "open files": Good, "commit": Warn} {
		if said[what] != want {
			t.Errorf("%s is %q, want %q", what, said[what], want)
		}
	}
}

// TestMachine: this machine is looked at, and nothing is left in the folder that was named.
func TestMachine(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "agent", membership.PassFile), []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, f := range Machine(folder, time.Now()) {
		said[f.What] = true
	}
	for _, what := range []string{"version", "isolation", "disk room", "disk speed", "port 5060", "certificate"} {
		if !said[what] {
			t.Errorf("nothing is said of %q", what)
		}
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v are left in the folder", entries, err)
	}
}

// TestPortOwner: this process is found as the owner of a port at which it listens.
func TestPortOwner(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	if owner := portOwner(uint64(port)); !strings.Contains(owner, fmt.Sprintf("(pid %d)", os.Getpid())) {
		t.Errorf("port %d belongs to %q", port, owner)
	}
}
