package jobfile_test

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/jobfile"
)

var rewrite = flag.Bool("rewrite", false, "write docs/job.schema.json and the table of docs/jobs.md anew")

// fieldsOf returns the fields of a job file by their names, as the types have them.
func fieldsOf(of reflect.Type, prefix string) (names []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[jobs.Match]() {
		return nil
	}
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous {
			continue
		}
		names = append(names, prefix+name)
		if prefix+name != "steps.task" { // its fields are those of task
			names = append(names, fieldsOf(field.Type, prefix+name+".")...)
		}
	}
	return names
}

// TestEveryFieldIsDescribed: the table has the fields that the types have, and no other, and docs/jobs.md has the table.
func TestEveryFieldIsDescribed(t *testing.T) {
	var described []string
	for _, field := range jobfile.Fields() {
		described = append(described, field.Name)
	}
	known := fieldsOf(reflect.TypeFor[jobs.Job](), "")
	for _, name := range known {
		if !slices.Contains(described, name) {
			t.Errorf("fields.txt says nothing of %s; decide also which flag of 'tender run' says the same", name)
		}
	}
	for _, name := range described {
		if !slices.Contains(known, name) {
			t.Errorf("fields.txt has %s, which is no field", name)
		}
	}
	const file, head, end = "../../../docs/jobs.md", "| field | meaning |", "\nThe last two columns"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	from, to := strings.Index(string(text), head), strings.Index(string(text), end)
	if from < 0 {
		from = strings.Index(string(text), "@@FIELDS@@")
	}
	if from < 0 || to < from {
		t.Fatalf("%s has no table of fields before %q", file, end)
	}
	whole := string(text)[:from] + fieldsTable() + string(text)[to:]
	if whole == string(text) {
		return
	}
	if !*rewrite {
		t.Fatalf("the table in %s is another; go test ./framework/jobs/jobfile -rewrite writes it anew", file)
	}
	if err := os.WriteFile(file, []byte(whole), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fieldsTable returns the fields as a table in Markdown.
func fieldsTable() string {
	var text strings.Builder
	text.WriteString("| field | meaning | default | `tender run` | `api.Task` |\n|---|---|---|---|---|\n")
	code := func(word string) string {
		if word == "" {
			return ""
		}
		return "`" + word + "`"
	}
	for _, field := range jobfile.Fields() {
		text.WriteString("| " + strings.Join([]string{code(field.Name), field.Meaning, field.Default, code(field.Flag), code(field.Task)}, " | ") + " |\n")
	}
	return text.String()
}

// notInJobs are the fields of tasks that a job file can't say, as docs/jobs.md lists them.
var notInJobs = []string{"ID", "Name", "Executor", "Data", "Placement", "Owner"}

// TestEveryFieldOfATaskIsDecided: each field of api.Task is one of a job file, or is listed as one that is not.
func TestEveryFieldOfATaskIsDecided(t *testing.T) {
	var decided []string
	for _, field := range jobfile.Fields() {
		name, _, _ := strings.Cut(field.Task, ".")
		decided = append(decided, field.Task, name)
	}
	check := func(of reflect.Type, prefix string) {
		for _, field := range reflect.VisibleFields(of) {
			if name := prefix + field.Name; !slices.Contains(decided, name) && !slices.Contains(notInJobs, name) {
				t.Errorf("api.Task.%s: no field of a job file becomes it; decide, and say so in fields.txt or in docs/jobs.md", name)
			}
		}
	}
	check(reflect.TypeFor[api.Task](), "")
	check(reflect.TypeFor[api.Command](), "Command.")
	check(reflect.TypeFor[api.Limits](), "Limits.")
}

// TestAJobSaysWhatATaskIs: what the table says that a field becomes, it becomes.
func TestAJobSaysWhatATaskIs(t *testing.T) {
	job, err := jobfile.DecodeJSON([]byte(`{"name":"x","type":"batch","task":{"command":"c","env":{"A":"b"},"cpus":1.5,"mem":64,"disk":5,"gpus":2,
		"resources":{"licenses":0.5},"revocable":true,"limits":{"cpus":2,"mem":128,"pids":50},"image":"alpine:3.20","user":"nobody","dir":"app","ports":["http"],
		"files":[{"source":"/x"}],"secrets":[{"id":"eng/db","env":"B"}],"labels":{"l":"m"},"kill_grace":"7s","kill_signal":"SIGINT",
		"checks":[{"tcp":"http","interval":"1s","timeout":"2s","grace":"3s","failures":4,"readiness":true}],
		"constraint":"a || b","where":{"disk":"ssd","zone":["a","b"],"rack":{"not":"r1"},"row":{"not":["1","2"]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := job.Task.APITask()
	want := api.Task{
		Command: &api.Command{Shell: "c", Env: map[string]string{"A": "b"}, User: "nobody", Dir: "app", URIs: []api.URI{{Source: "/x"}}},
		Image:   "alpine:3.20", KillGrace: 7 * time.Second, KillSignal: "SIGINT", Labels: map[string]string{"l": "m"}, Ports: map[string]uint16{"http": 0},
		Limits:  api.Limits{CPUs: 2000, Mem: 128_000, Pids: 50},
		Secrets: []api.Secret{{ID: "eng/db", Env: "B"}},
		Checks: []api.Check{{TCP: &api.TCPCheck{Port: "http"}, Interval: time.Second, Timeout: 2 * time.Second, Grace: 3 * time.Second, Failures: 4,
			Readiness: true}},
	}
	resources := got.Resources.String()
	got.Resources = api.Resources{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the task is\n%+v, wanted\n%+v", got, want)
	}
	for _, part := range []string{"disk", "gpus", "licenses", "cpus", "mem"} {
		if !strings.Contains(resources, part) {
			t.Errorf("%s is missing in %s", part, resources)
		}
	}
	if !job.Task.APITask().Resources.HasRevocable() {
		t.Errorf("nothing of %s is revocable", resources)
	}
	if got, want := job.Task.WantedAgent(), api.ImageConstraint+` && attributes[?"disk"].orValue("") == "ssd" && attributes[?"rack"].orValue("") != "r1" && `+
		`(attributes[?"row"].orValue("") != "1" && attributes[?"row"].orValue("") != "2") && (zone == "a" || zone == "b") && (a || b)`; got != want {
		t.Errorf("the constraint is\n%s, wanted\n%s", got, want)
	}
	for _, place := range []struct {
		attributes map[string]string
		zone       string
		fits       bool
	}{
		{map[string]string{"isolation": "processes,images", "disk": "ssd"}, "b", true},
		{map[string]string{"isolation": "processes,images", "disk": "ssd", "rack": "r2", "row": "3"}, "a", true},
		{map[string]string{"isolation": "processes", "disk": "ssd"}, "a", false},
		{map[string]string{"isolation": "images", "disk": "hdd"}, "a", false},
		{map[string]string{"isolation": "images", "disk": "ssd"}, "c", false},
		{map[string]string{"isolation": "images", "disk": "ssd", "rack": "r1"}, "a", false},
		{map[string]string{"isolation": "images", "disk": "ssd", "row": "2"}, "a", false},
	} {
		if got := job.Task.Fits(api.Offer{Attributes: place.attributes, Zone: place.zone}); got != place.fits {
			t.Errorf("%v in zone %s fits: %v", place.attributes, place.zone, got)
		}
	}
}
