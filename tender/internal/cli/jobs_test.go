package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const webFile = `
name = "web"
type = "service"
task.command = "echo I am $TENDER_JOB_INDEX; exec sleep 1000"
service.count = 2
service.proof = "100ms"
`

const sumFile = `{
  "name": "sum", "type": "batch",
  "task": {"command": "echo $TENDER_JOB_INDEX >> $DIR/done; sleep 1", "env": {"DIR": "THE_DIR"}},
  "batch": {"completions": 10, "parallelism": 3}
}`

// TestJobsOutliveTheirManager: the active manager is killed while a batch runs. The one that stood by goes on, and each
// index was done once.
func TestJobsOutliveTheirManager(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--agents", "2")
	folder := t.TempDir()
	web, sum := filepath.Join(folder, "web.toml"), filepath.Join(folder, "sum.json")
	for name, text := range map[string]string{web: webFile, sum: strings.ReplaceAll(sumFile, "THE_DIR", folder)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := func(args ...string) string {
		t.Helper()
		stdout, stderr, code := tender(t, d.env, args...)
		if code != 0 {
			t.Fatalf("%v ended with %d: %s", args, code, stderr)
		}
		return stdout
	}
	if _, stderr, code := tender(t, d.env, "job", "list"); code != 1 || !strings.Contains(stderr, "tender jobs") {
		t.Errorf("without a manager: %d, %s", code, stderr)
	}
	first := launch(t, d.env, true, []string{"jobs"})
	first.await("subscribed")
	second := launch(t, d.env, true, []string{"jobs"})
	second.await("standing by")
	good("job", "run", web)
	until(t, "the service has said its index", func() bool { // it is RUNNING, but its shell may not have got so far yet
		return good("job", "logs", "web", "--index", "1") == "I am 1\n"
	})
	good("job", "submit", sum)
	good("job", "submit", sum) // a repetition changes nothing
	until(t, "some of the batch is done", func() bool {
		text, err := os.ReadFile(filepath.Join(folder, "done"))
		return err == nil && strings.Count(string(text), "\n") >= 4
	})
	rows := launch(t, d.env, true, []string{"get", "jobs", "-w"})
	rows.await("web ")
	all := launch(t, d.env, true, []string{"job", "watch"})
	all.await("web is version 1 (RUNNING)")
	watch := launch(t, d.env, true, []string{"job", "watch", "sum", "-o", "json"})
	watch.await(`"phase":"RUNNING"`)
	first.signal(syscall.SIGKILL)
	good("job", "run", sum) // it waits for the second manager, and follows the job to its end
	rows.await("SUCCEEDED")
	text, err := os.ReadFile(filepath.Join(folder, "done"))
	if err != nil || strings.Count(string(text), "\n") != 10 {
		t.Errorf("the batch has done %q, %v", text, err)
	}
	var list struct {
		Items []struct{ Name, Phase string }
	}
	if err := json.Unmarshal([]byte(good("job", "list", "--all", "-o", "json")), &list); err != nil || len(list.Items) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if list.Items[0].Phase != "SUCCEEDED" || list.Items[1].Phase != "RUNNING" {
		t.Errorf("%+v", list)
	}
	if plan := good("job", "plan", web); !strings.Contains(plan, "nothing would change") {
		t.Errorf("the plan says %s", plan)
	}
	for args, wanted := range map[string][]string{
		"events --of job/sum":    {"submitted    job/sum", "succeeded    job/sum"},
		"events --kind job":      {"submitted    job/web", "proven       job/web: all run version 1"},
		"describe job sum":       {"SUCCEEDED", "Latest events", "succeeded    job/sum"},
		"explain sum --at 0s":    {"job/sum at ", "succeeded"},
		"get jobs --all -o name": {"sum\nweb\n"},
	} {
		for _, want := range wanted { // a manager's word of a job reaches the masters after the job's own answer
			until(t, fmt.Sprintf("%s to have %q", args, want), func() bool { return strings.Contains(good(strings.Fields(args)...), want) })
		}
	}
	watch.await(`"phase":"SUCCEEDED"`)
	if code := watch.wait(); code != 0 {
		t.Errorf("the watch of a job that has succeeded ended with %d", code)
	}
	all.await("sum: succeeded")
	good("job", "delete", "web")
	all.await("web: it is deleted")
	all.signal(syscall.SIGINT)
	if code := all.wait(); code != 130 {
		t.Errorf("the watch of all jobs ended with %d", code)
	}
	good("job", "delete", "sum")
	until(t, "all is forgotten", func() bool { return strings.Contains(good("job", "list", "--all"), "no jobs;") })
	second.signal(syscall.SIGINT)
	if code := second.wait(); code != 130 && code != 0 {
		t.Errorf("the second ended with %d", code)
	}
}

// TestAServiceThatDoesNotComeUp: 'tender job run' does not take a service that has begun for one that works. What is
// wrong with it is what the list and the status say.
func TestAServiceThatDoesNotComeUp(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--jobs=true")
	for _, service := range []struct{ name, task, why string }{
		{"crashes", `command = "echo no config >&2; exit 7"`, "exited with 7; the last line of its stderr: no config"},
		{"unready", "command = \"sleep 1000\"\nchecks = [{ command = \"exit 3\", readiness = true, interval = \"200ms\", timeout = \"1s\", grace = \"1ms\", failures = 1 }]", "does not pass its check (command)"},
	} {
		file := filepath.Join(t.TempDir(), service.name+".toml")
		text := fmt.Sprintf("name = %q\ntype = \"service\"\nservice = { proof = \"1s\", progress_deadline = \"4s\" }\n[task]\n%s\n", service.name, service.task)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := tender(t, d.env, "job", "run", file)
		if code != 1 || !strings.Contains(stderr, service.name+" does not come up: ") || !strings.Contains(stderr, service.why) {
			t.Errorf("run of %s ended with %d\n%s%s", service.name, code, stdout, stderr)
		}
		for _, verb := range [][]string{{"list"}, {"status", service.name}} {
			if stdout, stderr, code := tender(t, d.env, append([]string{"job"}, verb...)...); code != 0 || !strings.Contains(stdout, service.why) {
				t.Errorf("%v says %d\n%s%s", verb, code, stdout, stderr)
			}
		}
	}
	whatHasEnded(t, d)
	whatWaits(t, d)
}

// whatWaits: the leader's metrics say how many tasks of a job wait for resources, and since when.
func whatWaits(t *testing.T, d *devCluster) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "big.toml")
	if err := os.WriteFile(file, []byte("name = \"big\"\ntype = \"batch\"\nbatch.completions = 3\n[task]\ncommand = \"true\"\ncpus = 1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := tender(t, d.env, "job", "submit", file); code != 0 {
		t.Fatal(stderr)
	}
	until(t, "the metrics to tell of what waits", func() bool {
		text := served(t, "http://"+d.Masters[0].HTTP+"/metrics")
		return strings.Contains(text, `tender_job_wanted_tasks{job="big"} 3`) && strings.Contains(text, `tender_job_wanted_since_timestamp_seconds{job="big"}`)
	})
}

// whatHasEnded: the output of a job's task is found when it has ended, by its index; a task is found by the name of its
// framework, and explained; and 'run -q' says what neither output nor exit code does.
func whatHasEnded(t *testing.T, d *devCluster) {
	t.Helper()
	good := func(want string, args ...string) string {
		t.Helper()
		stdout, stderr, code := tender(t, d.env, args...)
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%v ended with %d:\n%s%s", args, code, stdout, stderr)
		}
		return stdout
	}
	file := filepath.Join(t.TempDir(), "sum.toml")
	if err := os.WriteFile(file, []byte("name = \"sum\"\ntype = \"batch\"\ntask.command = \"echo I was $TENDER_JOB_INDEX\"\nbatch.completions = 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good("succeeded", "job", "run", file)
	good("I was 1\n", "job", "logs", "sum", "--index", "1")
	for line := range strings.Lines(good("sum.", "get", "tasks", "--all", "-o", "name")) {
		if _, task, _ := strings.Cut(strings.TrimSpace(line), "/"); strings.HasPrefix(task, "sum.") && strings.Contains(task, ".main.1.") {
			good("I was 1\n", "logs", "jobs/"+task)
			good("is FINISHED on ", "explain", "jobs/"+task)
		}
	}
	if stdout, stderr, code := tender(t, d.env, "run", "-q", "--", "/no/such/program"); code != 1 || !strings.Contains(stderr, "no such file on this agent") {
		t.Errorf("'run -q' of a program that is not there ended with %d\n%s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := tender(t, d.env, "run", "-q", "--", "sh", "-c", "echo bye >&2; exit 3"); code != 3 || stderr != "bye\n" {
		t.Errorf("'run -q' of a program that says why itself ended with %d\n%s%s", code, stdout, stderr)
	}
}
