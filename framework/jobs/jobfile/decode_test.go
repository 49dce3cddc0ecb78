package jobfile_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/jobfile"
)

// TestProblemsNameTheField: all problems are reported at once, each with its field and with what would be right.
func TestProblemsNameTheField(t *testing.T) {
	for text, want := range map[string]string{
		`{"nam":"web"}`: `nam: there is no such field; did you mean "name"?`,
		`{"name":"web","type":"service","task":{"command":"x","cpu":1,"env":{"A":1}},"service":{"count":"3"}}`: `service.count: it is "3"; it must be a whole number
task.cpu: there is no such field; did you mean "cpus"?
task.env.A: it is 1; it must be a text, in quotes`,
		`{"name":"web","type":"service","task":{"command":"x","kill_grace":5}}`: `task.kill_grace: it is 5; write a time such as "30s" or "1h30m"`,
		`{"name":"a b","type":"service","task":{}}`: `name: "a b"; use letters, digits, '-' and '_' alone
task.command: it is missing; write a line for the shell, or a program with its arguments as task.argv`,
		`{"name":"web","type":"batch","task":{"command":"x"},"batch":{"completions":1.5}}`:                                                          `batch.completions: it is 1.5; it must be a whole number`,
		`{"name":"web","type":"batch","task":{"command":"x"},"service":{}}`:                                                                         `service: it belongs to jobs of type "service", and this one's type is "batch"`,
		`{"name":"web","type":"service","task":{"command":"x","most":1}}`:                                                                           `task.most: it says nothing without "spread"; write that too, or leave this one out`,
		`{"name":"web","type":"service","task":{"command":"x","files":[{"sourc":"y"}]}}`:                                                            `task.files[0].sourc: there is no such field; did you mean "source"?`,
		`{"name":"etl","type":"dag","steps":[{"name":"a","after":["b"],"task":{"command":"x"}},{"name":"b","after":["a"],"task":{"command":"x"}}]}`: `steps: some wait for each other in a ring, so that none of these could begin: steps[0] (a), steps[1] (b); take a name out of the after of one of them`,
		`{"name":"etl","type":"dag","steps":[{"name":"a","after":["c"],"when":"never","task":{"argv":[]}}]}`: `steps[0].when: it is "never"; write success, failure or always
steps[0].after: there is no step "c"
steps[0].task.command: it is missing; write a line for the shell, or a program with its arguments as steps[0].task.argv`,
		`{"name":"web","type":"service","task":{"command":"x","ports":["http"],"checks":[{"http":{"port":"web"}},{"http":{"port":"http","path":"x"}},{"tcp":"http","command":"y"},{"command":"y","interval":"1ms"}]}}`: `task.checks[0]: port "web" is none of the task's; name it in task.ports
task.checks[1]: path "x" does not begin with '/'
task.checks[2]: 2 of command, http, tcp and grpc are set; set exactly one
task.checks[3]: interval is 1ms; it must be 100ms or more`,
		`{"name":"night","type":"cron","task":{"command":"x"},"cron":{"overlap":"queue"}}`: `cron.overlap: it is "queue"; write forbid, allow or replace
cron.schedule: it is missing; write one such as "30 2 * * *": each day at 02:30`,
		`{"name":"sim","type":"gang","task":{"command":"x"},"gang":{"members":1,"on_failure":"ignore"}}`: `gang.members: it is 1; write 2 to 256
gang.on_failure: it is "ignore"; write restart or fail`,
		`{"name":"web","type":"service","task":{"command":"x","env":{"A":"1"},"secrets":[{"id":"db","env":"B"},{"id":"eng/db","env":"A"},{"id":"eng/db","file":"a/b"},
			{"id":"eng/db"},{"id":"eng/db","env":"C","file":"c"},{"id":"eng/db","file":"k"},{"id":"eng/key","file":"k"},{"id":"eng/key","env":"TENDER_JOB_NAME"},{"name":"eng/db"}]}}`: `task.secrets[8].name: there is no such field; here are id, env, file`,
		`{"name":"web","type":"service","task":{"command":"x","env":{"A":"1"},"secrets":[{"id":"db","env":"B"},{"id":"eng/db","env":"A"},{"id":"eng/db","file":"a/b"},
			{"id":"eng/db"},{"id":"eng/db","env":"C","file":"c"},{"id":"eng/db","file":"k"},{"id":"eng/key","file":"k"},{"id":"eng/key","env":"TENDER_JOB_NAME"}]}}`: `task.secrets[0].id: "db" names no secret; it is written ROLE/NAME, such as default/password
task.secrets[1].env: A is set already; give each a name of its own
task.secrets[2].file: the file's name "a/b" holds '/'; letters, digits, '-', '_' and '.' are safe
task.secrets[3].file: say either the variable or the file that is to hold it
task.secrets[4].env: say either the variable or the file that is to hold it
task.secrets[6].file: k is set already; give each a name of its own
task.secrets[7].env: names that begin with TENDER_ are Tender's own`,
		`{"name":"etl","type":"dag","steps":[{"name":"a","task":{"command":"x","secrets":[{"id":"eng/db","env":"A=B"}]}}]}`: `steps[0].task.secrets[0].env: "A=B" is no variable's name: it holds '='`,
		`{} {}`: `there is more behind the job; a file holds one`,
	} {
		if _, err := jobfile.DecodeJSON([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s\n says %v\n want %s", text, err, want)
		}
	}
	if _, err := jobfile.DecodeJSON([]byte(`{"name":"x","type":"nightly"}`)); err == nil || !strings.Contains(err.Error(), "write one of batch, service, dag, cron, system, gang") {
		t.Errorf("a wrong type: %v", err)
	}
}

// TestWhatNoMasterTakes: a job whose demand masters would refuse is refused when it is submitted, because it would be
// in the way of the demand of all other jobs.
func TestWhatNoMasterTakes(t *testing.T) {
	job := jobs.Job{Name: "web", Type: jobs.ServiceType, Task: jobs.Task{Command: "x", Where: map[string]jobs.Match{"disk": jobs.Is(strings.Repeat("x", 5000))}}}
	if err := job.Check(); err == nil || !strings.HasPrefix(err.Error(), "task.where: it comes to a constraint of 50") {
		t.Errorf("a long constraint: %v", err)
	}
}

// TestEncodeIsTheInverse: Decode reads what Encode has written.
func TestEncodeIsTheInverse(t *testing.T) {
	text := `{"name":"web","type":"service","priority":3,"task":{"command":"serve","cpus":0.5,"ports":["http"],"env":{"A":"b"},
		"where":{"disk":"ssd"},"spread":"zone","kill_grace":"10s","files":[{"source":"/x","executable":true}],
		"secrets":[{"id":"eng/db","env":"PASSWORD"},{"id":"eng/tls","file":"key.pem"}]},"service":{"count":3,"proof":"1m0s"}}`
	job, err := jobfile.DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := jobfile.Encode(job)
	if err != nil {
		t.Fatal(err)
	}
	again, err := jobfile.Decode(tree)
	if diff := cmp.Diff(job, again); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestNothingSaidAndZero: a service whose count is left out runs one task, also where its table is there; one whose count
// is zero runs none. Both are kept through a store.
func TestNothingSaidAndZero(t *testing.T) {
	for text, want := range map[string]int{`{}`: 1, `{"proof":"1s"}`: 1, `{"count":0}`: 0, `{"count":3}`: 3} {
		job, err := jobfile.DecodeJSON([]byte(`{"name":"web","type":"service","task":{"command":"x"},"service":` + text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		kept, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		var again jobs.Job
		if err := json.Unmarshal(kept, &again); err != nil {
			t.Fatal(err)
		}
		for _, one := range []jobs.Job{job, again} {
			if got := one.Plan().SubJobs[0].Tasks; got != want {
				t.Errorf("service = %s keeps %d tasks, wanted %d", text, got, want)
			}
		}
	}
}

// TestChanges: the changes name everything in which two jobs differ.
func TestChanges(t *testing.T) {
	before := jobs.Job{Name: "web", Type: jobs.ServiceType, Task: jobs.Task{Command: "one", Env: map[string]string{"A": "1"}}}
	after := before
	after.Task.Command, after.Task.Env, after.Service = "two", nil, &jobs.Service{Count: new(4)}
	before.Priority, before.Task.Timeout = 3, jobs.Duration(time.Minute)
	got, err := jobfile.Changes(before, after)
	want := []string{`priority: 0, was 3`, `service.count: 4, was 1`, `task.command: "two", was "one"`, `task.env.A: no more, was "1"`, `task.timeout: no more, was "1m0s"`}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestSchemaHasEveryField: the schema has every field that Decode reads, and no other.
func TestSchemaHasEveryField(t *testing.T) {
	text, err := jobfile.Schema()
	if err != nil {
		t.Fatal(err)
	}
	const file = "../../../docs/job.schema.json"
	if *rewrite {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(kept, text) {
		t.Errorf("docs/job.schema.json is not what 'tender job schema' prints (%v); write it anew: tender job schema > docs/job.schema.json", err)
	}
	var schema struct {
		Properties map[string]struct {
			Properties           map[string]any
			AdditionalProperties any
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if task := schema.Properties["task"]; task.Properties["kill_grace"] == nil || task.Properties["cpus"] == nil || task.AdditionalProperties != false {
		t.Errorf("the schema has %+v", task)
	}
}
