package cli_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// TestAFrameworkComesBackByItsToken: it comes back as the same principal and to its tasks. First it was suspended until
// after its certificate had expired; then it comes from a machine that has nothing of it but the token. Another
// principal can't take over, neither by the name nor by the ID.
func TestAFrameworkComesBackByItsToken(t *testing.T) {
	t.Parallel()
	const life = 10 * time.Second // as short as possible, because the test waits until such a certificate has expired
	c := startTrustedWith(t, "--certificate-life", life.String())
	start(t, c.env, "agent", "--data-dir", c.folder("a1"), "--http-port", strconv.Itoa(freePort(t)), "--resources", "cpus:4;mem:2000;disk:100",
		"--join", c.must("token", "create", "agent"), "--master", c.masters[0]).await(`"registered"`)
	program := buildExample(t, "standby")
	token := c.must("token", "create", "framework", "--principal", "etl")
	instance := func(home string) *proc {
		env := []string{"TENDER_TOKEN=" + token, "TENDER_MASTER=" + c.masters[0], "HOME=" + c.folder(home), "XDG_CONFIG_HOME="}
		return launchProgram(t, program, env, true, []string{"-copies", "2", "--", "sleep", "100000"})
	}
	joined := `/framework/etl","token":"` + strings.Split(token, "_")[2] // a renewal has no token

	first := instance("one")
	c.procs[0].await(joined)
	first.await("active as framework-1 with 0 tasks")
	first.await("copy-0-1 RUNNING")
	first.await("copy-1-1 RUNNING")
	before := processesNamed(t, &devCluster{dir: c.dir}, "sleep 100000", 2)
	if len(before) != 2 {
		t.Fatalf("%d copies run, want 2", len(before))
	}
	first.signal(syscall.SIGSTOP)
	ended := time.Now().Add(life + time.Second)
	until(t, "the certificate of who was suspended has ended", func() bool { return time.Now().After(ended) })
	first.signal(syscall.SIGCONT)
	c.procs[0].await(joined)
	first.await("active as framework-1 with 2 tasks")
	first.await("copy-0-1 RUNNING")

	for name, config := range map[string]framework.Config{"its name": {Name: "standby", Standby: true}, "its ID": {Name: "other", ID: "framework-1"}} {
		config.Masters, config.Token = c.masters, c.must("token", "create", "framework", "--principal", "web-"+strconv.Itoa(len(name)))
		if err := framework.Run(t.Context(), config, &worker{}); !api.Is(err, api.Denied) || !strings.Contains(err.Error(), `belongs to principal "etl"`) {
			t.Errorf("another principal that comes by %s is told %v", name, err)
		}
	}
	first.signal(syscall.SIGKILL)
	first.wait()
	second := instance("two")
	c.procs[0].await(joined)
	second.await("active as framework-1 with 2 tasks")
	c.must("kill", "copy-1-1")
	second.await("copy-1-2 RUNNING")
	after, same := processesNamed(t, &devCluster{dir: c.dir}, "sleep 100000", 2), 0
	for pid := range before {
		if after[pid] {
			same++
		}
	}
	if len(after) != 2 || same != 1 {
		t.Errorf("%d copies run, %d of them from before; want 2 and the one that nobody ended", len(after), same)
	}
	if all := c.must("get", "tasks", "--all"); strings.Contains(all, "LOST") || strings.Contains(all, "set apart") {
		t.Errorf("the tasks are\n%s", all)
	}
}
