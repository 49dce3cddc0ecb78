package alerts

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is what make build has built.
const program = "../../bin/tender"

// TestAlertsFireInACluster: one cluster of processes gets into one trouble after the other, and in each the alerts fire
// that are for it, on what its masters and agents really serve. What is scraped in a trouble is taken to last for as long
// as the alerts wait.
func TestAlertsFireInACluster(t *testing.T) {
	if _, err := os.Stat(program); err != nil {
		t.Skip("there is no bin/tender; make build")
	}
	c := &cluster{t: t, dir: t.TempDir(), series: make(map[string][]string), names: namesAsked(t)}
	c.startAll()
	c.until("every agent to be there", "tender_agents", `state="RUNNING"`, func(sum float64) bool { return sum == agentsMax })
	for i := range agentsMax { // one on each agent
		c.tender("run", "--detach", "--cpus", "2", "--name", fmt.Sprint("kept", i), "--", "sleep", "1000")
	}
	c.until("the tasks to run", "tender_tasks", `state="RUNNING"`, func(sum float64) bool { return sum == agentsMax })
	c.last(20)
	if c.small {
		c.fire("TenderDiskNearlyFull")
	}
	c.quiet("a healthy cluster", "TenderDiskNearlyFull", "TenderSlowDisk") // the machine's disk may be small, and slow

	went := c.start("run", "--cpus", "1", "--", "sleep", "1000")
	c.until("its framework", "tender_frameworks_active", "", func(sum float64) bool { return sum == 1 })
	c.kill(went)
	c.start("run", "--cpus", "100", "--", "true")
	c.until("demand", "tender_framework_wanted_tasks", "", func(sum float64) bool { return sum > 0 })
	c.until("a scheduler that is away", "tender_frameworks_active", "", func(sum float64) bool { return sum == 1 })
	c.last(40)
	c.fire("TenderSchedulersAway", "TenderDemandUnmet")

	for range 5 {
		before := c.sum("tender_elections_won_total", "")
		c.tender("raft", "transfer-leader", c.follower())
		c.until("an election", "tender_elections_won_total", "", func(sum float64) bool { return sum > before })
		c.until("a leader", "tender_master_leading", "", func(sum float64) bool { return sum == 1 })
		c.last(1)
	}
	c.fire("TenderElections")

	for range 2 { // the rule looks back over five minutes, and waits as long
		c.stall()
		c.last(8)
	}
	c.fire("TenderSlowDisk")

	for range 2 {
		c.crowd()
		c.last(8)
	}
	c.fire("TenderConnectionsRefused")

	c.age(c.follower()) // a leader reads its snapshots, and this one is empty
	c.last(121)
	c.fire("TenderNoSnapshot")

	c.kill(c.agents[0])
	c.kill(c.agents[1])
	c.until("agents that are not marked gone", "tender_agents_overdue", "", func(sum float64) bool { return sum == 2 })
	c.last(15)
	c.fire("TenderAgentsSilent", "TenderTasksUnreachable", "TenderManyAgentsAway", "TenderAgentsIll")

	if c.leader() == "m2" {
		c.tender("raft", "transfer-leader", "m0")
		c.until("m0 to lead", "tender_master_leading", `instance="m0"`, func(sum float64) bool { return sum == 1 })
	}
	alerts := []string{"TenderMasterAbsent", "TenderMasterIll"}
	if c.small {
		c.fill()
		alerts = append(alerts, "TenderDiskFailing")
	}
	c.kill(c.masters[2])
	c.until("an ill master", "tender_master_ill", "", func(sum float64) bool { return sum == 1 })
	c.last(15)
	c.fire(alerts...)

	c.kill(c.masters[c.number(c.leader())])
	c.until("nobody to lead", "tender_master_leading", "", func(sum float64) bool { return sum == 0 })
	c.until("an agent without a leader", "tender_agent_registered", "", func(sum float64) bool { return sum == 0 })
	c.last(5)
	c.fire("TenderNobodyLeads", "TenderAgentWithoutLeader")
}

const (
	mastersMax = 3
	agentsMax  = 3
	// scrapePause is between two scrapes of those that await something: masters let nobody ask much faster.
	scrapePause = 300 * time.Millisecond
)

// cluster is three masters and three agents, with what was scraped of them.
type cluster struct {
	t               *testing.T
	dir             string
	addresses       []string // of the masters, for clients
	masters, agents []*exec.Cmd
	small           bool // m2 has a small disk of its own; only root can make one
	scraped         []target
	names           *regexp.Regexp // what is kept of a scrape
	scrapes         int
	begun           int                 // the scrape with which the last trouble began
	series          map[string][]string // by name and labels; one value for each scrape
	client          http.Client         // with which it scrapes
	scheme          string              // "": http
	ports           int                 // that were looked at by free
}

type target struct{ job, instance, address string }

func (c *cluster) startAll() {
	me, err := user.Current()
	if err != nil {
		c.t.Fatal(err)
	}
	disk := filepath.Join(c.dir, "m2")
	if err := os.Mkdir(disk, 0o700); err != nil {
		c.t.Fatal(err)
	}
	if c.small = exec.Command("mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "tmpfs", disk).Run() == nil; c.small {
		c.t.Cleanup(func() { _ = exec.Command("umount", disk).Run() })
	}
	var peers, raft, grpc, ports []string
	for i := range mastersMax {
		raft, grpc, ports = append(raft, c.free()), append(grpc, c.free()), append(ports, c.free())
		peers = append(peers, fmt.Sprintf("m%d=127.0.0.1:%s", i, raft[i]))
		c.addresses = append(c.addresses, "127.0.0.1:"+grpc[i])
		c.scraped = append(c.scraped, target{"tender-master", fmt.Sprint("m", i), "127.0.0.1:" + ports[i]})
	}
	for i := range mastersMax {
		c.masters = append(c.masters, c.start("master", "--insecure", "--data-dir", filepath.Join(c.dir, fmt.Sprint("m", i)), "--id", fmt.Sprint("m", i),
			"--peers", strings.Join(peers, ","), "--raft-port", raft[i], "--grpc-port", grpc[i], "--http-port", ports[i],
			"--heartbeat", "200ms", "--session-timeout", "2s", "--tombstone-after", "3s", "--gone-after", "1s"))
	}
	for i := range agentsMax {
		port := c.free()
		c.scraped = append(c.scraped, target{"tender-agent", fmt.Sprint("a", i), "127.0.0.1:" + port})
		c.agents = append(c.agents, c.start("agent", "--insecure", "--data-dir", filepath.Join(c.dir, fmt.Sprint("a", i)), "--http-port", port,
			"--hostname", fmt.Sprint("a", i), "--resources", "cpus:3;mem:512", "--isolation", "none", "--recovery-timeout", "1s", "--task-user", me.Username))
	}
}

// firstPort is below the ports that systems use for outgoing connections, and below those of 'tender dev': masters come
// back to theirs. Other tests reserve theirs below it (internal/testing/freeports), and mesosgo has 100 there.
const firstPort = 19_100

// free returns a port that nobody uses, each time another one.
func (c *cluster) free() string {
	for {
		c.ports++
		port := strconv.Itoa(firstPort + c.ports)
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			listener.Close()
			return port
		}
	}
}

// start starts the program. Its process group ends with the test.
func (c *cluster) start(args ...string) *exec.Cmd { return c.startAs(program, args...) }

// startAs starts a build of the program.
func (c *cluster) startAs(program string, args ...string) *exec.Cmd {
	c.t.Helper()
	child := exec.Command(program, args...)
	if child.Env = append(os.Environ(), "TENDER_TOKEN="); args[0] != "master" {
		child.Env = append(child.Env, "TENDER_MASTER="+strings.Join(c.addresses, ","))
	}
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(c.dir, fmt.Sprintf("%s-%d.log", args[0], time.Now().UnixNano())))
	if err != nil {
		c.t.Fatal(err)
	}
	child.Stdout, child.Stderr = log, log
	if err := child.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		c.kill(child)
		if text, err := os.ReadFile(log.Name()); c.t.Failed() && err == nil {
			c.t.Logf("tender %s\n%s", strings.Join(args, " "), text[max(0, len(text)-4000):])
		}
		_ = log.Close()
	})
	return child
}

// fill fills the disk of m2, until that can't write what the leader tells it.
func (c *cluster) fill() {
	junk, err := os.Create(filepath.Join(c.dir, "m2", "junk"))
	if err != nil {
		c.t.Fatal(err)
	}
	for err == nil {
		_, err = junk.Write(make([]byte, 4096))
	}
	_ = junk.Close()
	weight := 1
	c.until("a disk that takes no writes", "tender_raft_disk_failing", "", func(sum float64) bool {
		weight++
		c.tender("weight", "eng", strconv.Itoa(weight))
		return sum == 1
	})
	c.last(1)
}

func (c *cluster) kill(child *exec.Cmd) {
	if child.ProcessState == nil {
		_ = syscall.Kill(-child.Process.Pid, syscall.SIGKILL)
		_ = child.Wait()
	}
}

// tender runs a command to its end.
func (c *cluster) tender(args ...string) []byte {
	c.t.Helper()
	out, err := c.command(args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("tender %v: %v: %s", args, err, out)
	}
	return out
}

// command returns a command that has not begun yet.
func (c *cluster) command(args ...string) *exec.Cmd {
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), "TENDER_TOKEN=", "TENDER_MASTER="+strings.Join(c.addresses, ","))
	return command
}

// state returns the name of a master in that state.
func (c *cluster) state(wanted string) string {
	c.t.Helper()
	var masters struct{ Items []struct{ ID, State string } }
	if err := json.Unmarshal(c.tender("get", "masters", "-o", "json"), &masters); err != nil {
		c.t.Fatal(err)
	}
	for _, m := range masters.Items {
		if m.State == wanted {
			return m.ID
		}
	}
	c.t.Fatalf("no master is a %s", wanted)
	return ""
}

func (c *cluster) follower() string { return c.state("follower") }

func (c *cluster) leader() string { return c.state("leader") }

func (c *cluster) number(id string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, "m"))
	return n
}

// scrape asks everybody once. It returns the values by name and labels.
func (c *cluster) scrape() map[string]float64 {
	values := make(map[string]float64)
	for _, to := range c.scraped {
		labels := fmt.Sprintf(`job="%s",instance="%s"`, to.job, to.instance)
		up := "up{" + labels + "}"
		values[up] = 0
		answer, err := c.client.Get(cmp.Or(c.scheme, "http") + "://" + to.address + "/metrics")
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), " ")
			if at := strings.LastIndexByte(lines.Text(), ' '); at > 0 {
				name, value = lines.Text()[:at], lines.Text()[at+1:]
			}
			if !c.names.MatchString(name) {
				continue
			}
			name, more, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
			if more != "" {
				more = "," + more
			}
			if values[name+"{"+labels+more+"}"], err = strconv.ParseFloat(value, 64); err != nil {
				c.t.Fatalf("%s: %v", lines.Text(), err)
			}
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		values[up] = 1
	}
	return values
}

// namesAsked matches what the rules ask for.
func namesAsked(t *testing.T) *regexp.Regexp {
	var names []string
	for _, r := range readRules(t) {
		names = append(names, regexp.MustCompile(`tender_[a-z_]+`).FindAllString(r.Expr, -1)...)
	}
	slices.Sort(names)
	return regexp.MustCompile(`^(` + strings.Join(slices.Compact(names), "|") + `)(\{|$)`)
}

func (c *cluster) sum(metric, label string) (sum float64) {
	for name, value := range c.scrape() {
		if strings.HasPrefix(name, metric+"{") && strings.Contains(name, label) {
			sum += value
		}
	}
	return sum
}

// until awaits a sum over all that are scraped.
func (c *cluster) until(what, metric, label string, is func(sum float64) bool) {
	c.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for sum := c.sum(metric, label); !is(sum); sum = c.sum(metric, label) {
		if time.Now().After(deadline) {
			c.t.Fatalf("awaiting %s: the sum of %s{%s} is still %v", what, metric, label, sum)
		}
		<-time.After(scrapePause)
	}
}

// last scrapes once, and takes it that the next scrapes find the same. What is not there any more is marked as Prometheus
// does it.
func (c *cluster) last(scrapes int) {
	found := c.scrape()
	for name, value := range found {
		if value != 0 && strings.Contains(name, "_timestamp_seconds{") {
			found[name] = value + epoch + every.Seconds()*float64(c.scrapes) - float64(time.Now().UnixMilli())/1000
		}
	}
	for name := range found {
		if c.series[name] == nil {
			c.series[name] = slices.Repeat([]string{"_"}, c.scrapes)
		}
	}
	for name := range c.series {
		word := "stale"
		if value, is := found[name]; is {
			word = strconv.FormatFloat(value, 'f', -1, 64)
		}
		c.series[name] = append(c.series[name], slices.Repeat([]string{word}, scrapes)...)
	}
	c.scrapes += scrapes
}

// firing evaluates a rule over all that was scraped until now.
func (c *cluster) firing(r rule) (began, fired time.Duration) {
	var text strings.Builder
	for name, values := range c.series {
		fmt.Fprintf(&text, "  %s %s\n", name, strings.Join(values, " "))
	}
	r.Expr = strings.ReplaceAll(r.Expr, "time()", fmt.Sprintf("(time() + %d)", int64(epoch)))
	if number, is := rewritten[r.Alert]; is {
		if !strings.Contains(r.Expr, number[0]) {
			c.t.Errorf("%s has no %q any more", r.Alert, number[0])
		}
		r.Expr = strings.ReplaceAll(r.Expr, number[0], number[1])
	}
	return firing(c.t, load(c.t, story{text.String(), every}), r, every, c.scrapes-1)
}

// quiet: no rule fires, but those that are named may.
func (c *cluster) quiet(where string, but ...string) {
	c.t.Helper()
	for _, r := range readRules(c.t) {
		if _, fired := c.firing(r); fired >= 0 && !slices.Contains(but, r.Alert) {
			c.t.Errorf("%s fires in %s", r.Alert, where)
		}
	}
	c.begun = c.scrapes
}

// fire: the named rules fire, and for what has happened since the last trouble.
func (c *cluster) fire(alerts ...string) {
	c.t.Helper()
	for _, r := range readRules(c.t) {
		if !slices.Contains(alerts, r.Alert) {
			continue
		}
		if began, fired := c.firing(r); fired < 0 || began < time.Duration(c.begun)*every {
			c.t.Errorf("%s: it holds from %v on and fires after %v; its trouble began after %v", r.Alert, began, fired, time.Duration(c.begun)*every)
		}
	}
	c.begun = c.scrapes
}
