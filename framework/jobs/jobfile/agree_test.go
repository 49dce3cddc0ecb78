package jobfile_test

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tenderhq/tender/framework/jobs/jobfile"
)

// compiled returns the schema, ready to judge.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := jobfile.Schema()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("job.schema.json", tree); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("job.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// task returns a batch whose task has these fields beside its command; of returns a job of a type with these fields.
func task(fields string) string { return of("batch", `"task":{"command":"x",`+fields+`}`) }

func of(kind, fields string) string { return `{"name":"web","type":"` + kind + `",` + fields + `}` }

// with returns a job of a type with a good task.
func with(kind, fields string) string { return of(kind, `"task":{"command":"x"},`+fields) }

// step returns a DAG of one step with these fields.
func step(fields string) string {
	return of("dag", `"steps":[{"name":"a","task":{"command":"x"},`+fields+`}]`)
}

// wrong are files that both the reader and the schema refuse.
var wrong = []string{
	`{}`, `[]`, `"web"`, `null`,
	`{"name":"web"}`, `{"type":"batch","task":{"command":"x"}}`, `{"name":"web","type":"batch"}`,
	`{"name":"","type":"batch","task":{"command":"x"}}`, `{"name":"a b","type":"batch","task":{"command":"x"}}`,
	`{"name":"a.b","type":"batch","task":{"command":"x"}}`, `{"name":7,"type":"batch","task":{"command":"x"}}`,
	`{"name":"` + strings.Repeat("x", 64) + `","type":"batch","task":{"command":"x"}}`,
	`{"name":"web","type":"nightly","task":{"command":"x"}}`, `{"name":"web","type":"","task":{"command":"x"}}`,
	with("batch", `"nam":"x"`), with("batch", `"priority":1001`), with("batch", `"priority":-1001`), with("batch", `"priority":0.5`), with("batch", `"priority":"1"`),
	// Sections belong to types.
	with("batch", `"service":{}`), with("service", `"batch":{}`), with("batch", `"cron":{"schedule":"@daily"}`), with("batch", `"gang":{"members":2}`),
	with("service", `"system":{}`), with("batch", `"steps":[{"name":"a","task":{"command":"x"}}]`), with("cron", `"priority":1`), with("gang", `"priority":1`),
	of("dag", `"steps":[]`), of("dag", `"priority":1`), with("dag", `"steps":[{"name":"a","task":{"command":"x"}}]`),
	// What a task runs.
	of("batch", `"task":{}`), of("batch", `"task":{"command":""}`), of("batch", `"task":{"argv":[]}`), task(`"argv":["y"]`), of("batch", `"task":7`),
	of("batch", `"task":{"command":["x"]}`), of("batch", `"task":{"argv":"x"}`), of("batch", `"task":{"argv":[7]}`), task(`"cmd":"x"`), task(`"image":""`), task(`"user":""`),
	task(`"env":{"A":1}`), task(`"env":{"TENDER_X":"1"}`), task(`"env":["A=b"]`), task(`"env":{"A=B":"1"}`), task(`"env":{"":"1"}`),
	// What it needs: nothing, too little, too fine, too much, of another kind.
	task(`"cpus":0`), task(`"cpus":-1`), task(`"cpus":0.0004`), task(`"cpus":"1"`), task(`"cpus":null`), task(`"mem":0`), task(`"mem":-5`), task(`"mem":1e10`),
	task(`"disk":-1`), task(`"disk":0.0001`), task(`"gpus":0.5`), task(`"gpus":-1`), task(`"resources":{"licenses":0}`), task(`"resources":{"cpus":1}`),
	task(`"resources":{"licenses":"1"}`), task(`"resources":[]`), task(`"revocable":"yes"`), task(`"limits":{"cpus":0}`), task(`"limits":{"pids":0}`),
	task(`"limits":{"mem":0.0001}`), task(`"limits":{"disk":5}`), task(`"limits":7`),
	task(`"ports":["a b"]`), task(`"ports":["a","a"]`), task(`"ports":[""]`), task(`"ports":{"a":1}`),
	// Where it runs.
	task(`"where":{"disk":7}`), task(`"where":{"disk":[]}`), task(`"where":{"disk":{"not":[]}}`), task(`"where":{"disk":{"is":"x"}}`), task(`"where":{"disk":{}}`),
	task(`"where":{"disk":{"not":"x","is":"y"}}`), task(`"spread":"rack"`), task(`"spread":""`), task(`"most":1`), task(`"spread":"zone","most":-1`),
	task(`"spread":"zone","most":10001`), with("system", `"task":{"command":"x","spread":"zone"}`),
	// For how long, and how often.
	task(`"kill_grace":5`), task(`"kill_grace":"5"`), task(`"kill_grace":"-5s"`), task(`"kill_grace":"0s"`), task(`"kill_grace":""`), task(`"kill_signal":"SIGKILL"`), task(`"kill_signal":""`), task(`"timeout":"0s"`),
	task(`"timeout":"1 h"`), of("service", `"task":{"command":"x","timeout":"1m"}`), of("system", `"task":{"command":"x","timeout":"1m"}`), task(`"attempts":0`), task(`"attempts":-1`), task(`"attempts":1000001`), task(`"attempts":1.5`),
	task(`"backoff":"0s"`), task(`"backoff_max":"-1m"`), task(`"lost_after":"soon"`),
	// Files, secrets, checks.
	task(`"files":[{}]`), task(`"files":[{"source":"x"}]`), task(`"files":[{"source":"ftp://x/y"}]`), task(`"files":[{"source":"https://x/y"}]`),
	task(`"files":[{"source":"/x","sha256":"abc"}]`), task(`"files":[{"source":"/x","name":"a/b"}]`), task(`"files":[{"source":"/x","mode":7}]`),
	task(`"files":[{"source":""}]`), task(`"secrets":[{}]`), task(`"secrets":[{"id":"eng/db"}]`), task(`"secrets":[{"id":"db","env":"A"}]`),
	task(`"secrets":[{"id":"eng/db","env":"A","file":"b"}]`), task(`"secrets":[{"id":"eng/db","env":"TENDER_A"}]`), task(`"secrets":[{"id":"eng/db","file":"a/b"}]`),
	task(`"secrets":[{"id":"eng/db","env":"A=B"}]`), task(`"checks":[{}]`), task(`"checks":[{"command":"a","tcp":"b"}]`), task(`"checks":[{"http":{}}]`),
	task(`"ports":["p"],"checks":[{"http":{"port":"p","path":"x"}}]`), task(`"ports":["p"],"checks":[{"http":{"port":"p","path":"/a b"}}]`),
	task(`"ports":["p"],"checks":[{"http":{"port":"p","path":"/a\r\nHost: x"}}]`), task(`"checks":[{"command":"a","interval":"0s"}]`),
	task(`"checks":[{"command":"a","failures":0}]`), task(`"checks":[{"command":"a","failures":1001}]`), task(`"checks":[` + strings.Repeat(`{"command":"a"},`, 8) + `{"command":"a"}]`),
	// The sections.
	with("batch", `"batch":{"completions":0}`), with("batch", `"batch":{"completions":1.5}`), with("batch", `"batch":{"parallelism":0}`),
	with("batch", `"batch":{"parallelism":10001}`), with("batch", `"batch":{"failures":-1}`), with("batch", `"batch":{"speculate":1}`),
	with("batch", `"batch":{"deadline":"0s"}`), with("batch", `"batch":{"count":3}`), with("service", `"service":{"count":-1}`), with("service", `"service":{"count":10001}`),
	with("service", `"service":{"count":"3"}`), with("service", `"service":{"count":null}`), with("service", `"service":{"at_once":0}`), with("service", `"service":{"proof":"0s"}`),
	with("service", `"service":{"canary":-1}`), with("service", `"service":{"keep_bad":1}`), with("service", `"service":{"progress_deadline":"never"}`),
	with("gang", `"gang":{}`), with("gang", `"gang":{"members":1}`), with("gang", `"gang":{"members":257}`), with("gang", `"gang":{"members":2,"on_failure":"ignore"}`),
	with("cron", `"cron":{}`), with("cron", `"cron":{"schedule":""}`), with("cron", `"cron":{"schedule":"@daily","overlap":"queue"}`),
	with("cron", `"cron":{"schedule":"@daily","missed":"twice"}`), with("cron", `"cron":{"schedule":"@daily","keep":0}`), with("cron", `"cron":{"schedule":"@daily","keep":101}`),
	step(`"when":"never"`), step(`"when":"failure"`), step(`"when":"always"`), step(`"when":"failure","after":[]`), with("service", `"service":{"canary_proof":"1m"}`),
	with("system", `"system":{"canary":0,"canary_proof":"1m"}`), step(`"completions":0`), step(`"after":"b"`), step(`"name":"a b"`), of("dag", `"steps":[{"name":"a"}]`), of("dag", `"steps":[{"task":{"command":"x"}}]`),
}

// wrongToTheReader are files that a schema can't refuse.
var wrongToTheReader = map[string]string{
	task(`"cpus":0.0015`):                                                                          "editors divide inexactly, so that the schema says nothing of amounts between thousandths",
	task(`"checks":[{"tcp":"http"}]`):                                                              "a port that is none of the task's",
	task(`"checks":[{"command":"a","interval":"1ms"}]`):                                            "a time that is too short",
	with("service", `"service":{"progress_deadline":"5s"}`):                                        "a time that is shorter than another",
	step(`"after":["b"]`):                                                                          "a step that is none",
	of("dag", `"steps":[{"name":"a","after":["a"],"task":{"command":"x"}}]`):                       "a ring",
	task(`"secrets":[{"id":"eng/a","env":"A"},{"id":"eng/b","env":"A"}]`):                          "a name that is taken",
	task(`"env":{"A":"` + strings.Repeat("x", 140<<10) + `"}`):                                     "a job that is too large",
	task(`"limits":{"mem":1}`):                                                                     "less memory than it asks for",
	`{"name":"web","type":"batch","task":{"command":"one","command":"two"}}`:                       "a key that is there twice",
	`{"name":"web","type":"batch","task":{"command":"x"}} {}`:                                      "two jobs",
	`{"name":"web","name":"web","type":"batch","task":{"command":"x"}}`:                            "a key that is there twice",
	`{"name":"web","type":"batch","task":{"command":"x","env":{"A":"","A":""}}}`:                   "a key that is there twice",
	`{"name":"web","type":"batch","task":{"files":[{"source":"/a","source":"/b"}],"command":"x"}}`: "a key that is there twice",
}

// good are files that both take.
var good = []string{
	with("batch", `"$schema":"https://example.com/job.schema.json"`), with("batch", `"batch":{}`), with("service", `"service":{}`), with("service", `"service":{"count":0}`),
	"\ufeff" + with("batch", `"priority":0`), of("batch", `"task":{"image":"alpine:3.20"}`), task(`"disk":0,"gpus":0,"lost_after":"-1s"`), task(`"env":{"A":""}`),
	task(`"where":{"a":"","b":["x","y"],"c":{"not":"z"},"d":{"not":["z"]}}`), task(`"files":[{"source":"https://x/y","sha256":"` + strings.Repeat("a", 64) + `"}]`),
	with("system", `"system":{"at_once":2}`), with("gang", `"gang":{"members":2}`), with("cron", `"cron":{"schedule":"@daily"}`), step(`"when":"success"`),
	of("dag", `"steps":[{"name":"a","task":{"command":"x"}},{"name":"b","after":["a"],"when":"failure","task":{"command":"x"}}]`), task(`"most":0`),
	with("service", `"service":{"canary":1,"canary_proof":"1m"}`),
	task(`"ports":["p"],"checks":[{"http":{"port":"p","path":"/a%20b?c=d"}},{"grpc":{"port":"p"}}]`), task(`"timeout":"1h30m","backoff":"0.5s"`),
	task(`"resources":{"licenses":0.125},"limits":{"cpus":2},"spread":"attribute:rack","most":2`),
}

// TestTheSchemaSaysWhatTheReaderSays: a file that 'tender job validate' refuses has a mark in its editor, and one that
// it takes has none.
func TestTheSchemaSaysWhatTheReaderSays(t *testing.T) {
	schema := compiled(t)
	bySchema := func(text string) error {
		tree, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.TrimPrefix(text, jobfile.Mark)))
		if err != nil {
			return err
		}
		return schema.Validate(tree)
	}
	for _, text := range wrong {
		if _, err := jobfile.DecodeJSON([]byte(text)); err == nil {
			t.Errorf("the reader takes %.200s", text)
		}
		if err := bySchema(text); err == nil {
			t.Errorf("the schema takes %.200s", text)
		}
	}
	for text, why := range wrongToTheReader {
		if _, err := jobfile.DecodeJSON([]byte(text)); err == nil {
			t.Errorf("the reader takes %.200s (%s)", text, why)
		}
	}
	for _, text := range good {
		if _, err := jobfile.DecodeJSON([]byte(text)); err != nil {
			t.Errorf("the reader refuses %.200s: %v", text, err)
		}
		if err := bySchema(text); err != nil {
			t.Errorf("the schema refuses %.200s: %v", text, err)
		}
	}
	if len(wrong)+len(wrongToTheReader) < 100 {
		t.Errorf("there are %d wrong files", len(wrong)+len(wrongToTheReader))
	}
}
