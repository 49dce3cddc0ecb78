package cli_test

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestARoleIsTakenBackFromAManager: the right to run in a role of one team is taken from a job manager, which runs and is
// then started again. The jobs of the others go on; those of that team keep their tasks, start no more, say which grant
// is missing, and go on by themselves when it is given back. (R61)
func TestARoleIsTakenBackFromAManager(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	start(t, c.env, "agent", "--data-dir", c.folder("a1"), "--http-port", strconv.Itoa(freePort(t)), "--resources", "cpus:1;mem:500;disk:100",
		"--join", c.must("token", "create", "agent"), "--master", c.masters[0])
	token := c.must("token", "create", "framework", "--principal", "jobs", "--role", "default")
	c.must("grant", "jobs", "run", "--role", "eng")
	manager := c.jobs(token)
	until(t, "the manager answers", func() bool { _, _, code := tender(t, c.env, "job", "list"); return code == 0 })
	for name, role := range map[string]string{"theirs": "eng", "ours": "default"} {
		c.must("job", "run", c.write(name, fmt.Sprintf("name = %q\ntype = \"service\"\nrole = %q\ntask.command = \"sleep 1000\"\nservice.proof = \"1ms\"\n", name, role)))
	}
	status := func(job string) string { stdout, _, _ := tender(t, c.env, "job", "status", job); return stdout }
	runs := func(job string) bool { return strings.Contains(status(job), " RUNNING ") }
	const why = "the job manager can't run in role eng: "
	const grant = "an operator gives the grant: tender grant jobs run --role eng\n"
	waits := func() bool {
		return strings.Contains(status("theirs"), why) && strings.Contains(status("theirs"), grant)
	}

	c.must("revoke", "jobs", "run", "--role", "eng")
	until(t, "it is said why jobs of the team wait", waits)
	if !runs("theirs") {
		t.Errorf("a task has ended with the right to start it:\n%s", status("theirs"))
	}
	replaced := func(job string, comes bool) {
		t.Helper()
		before := tasksOf(t, c.env, job)
		c.must("kill", before)
		until(t, before+" has ended", func() bool { return tasksOf(t, c.env, job) != before })
		if comes {
			until(t, "another task of "+job, func() bool { return runs(job) })
		}
	}
	replaced("ours", true)

	manager.signal(syscall.SIGKILL)
	manager.wait()
	c.jobs(token)
	until(t, "the next manager says it too", waits)
	replaced("ours", true)
	replaced("theirs", false)
	if told := status("theirs"); !waits() || strings.Contains(told, "The masters say why") {
		t.Errorf("a job that waits for its role says\n%s", told)
	}
	if told := c.as(c.env, 1, "job", "submit", c.write("more", "name = \"more\"\ntype = \"batch\"\nrole = \"eng\"\ntask.command = \"true\"\n")); !strings.Contains(told, grant) {
		t.Errorf("one more job is refused with %q", told)
	}

	c.must("grant", "jobs", "run", "--role", "eng")
	until(t, "the team's job goes on", func() bool { return runs("theirs") && !waits() })
	if !runs("ours") {
		t.Errorf("the other job has stopped:\n%s", status("ours"))
	}
}

// tasksOf returns the tasks of a job that have not ended.
func tasksOf(t *testing.T, env []string, job string) string {
	t.Helper()
	var found []string
	for _, item := range get(t, env, "tasks").Items {
		if strings.HasPrefix(item.ID, job+".") {
			found = append(found, item.FrameworkID+"/"+item.ID)
		}
	}
	return strings.Join(found, " ")
}
