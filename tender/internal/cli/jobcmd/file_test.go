package jobcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestProblemsNameTheLine: errors name the line, in TOML and in JSON.
func TestProblemsNameTheLine(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"table.toml", "name = \"web\"\ntype = \"service\"\n\n[task]\ncommand = \"x\"\ncpu = 1\n[service]\ncount = \"3\"\n",
			"table.toml:6: task.cpu: there is no such field; did you mean \"cpus\"?\ntable.toml:8: service.count: it is \"3\"; it must be a whole number"},
		{"dotted.toml", "name = \"web\"\ntype = \"service\"\ntask.command = \"x\"\ntask.cpus = -1\n", "dotted.toml:4: task.cpus: it is -1; it can't be negative"},
		{"list.toml", "name = \"web\"\ntype = \"service\"\ntask.command = \"x\"\n[[task.files]]\nsource = \"/a\"\n[[task.files]]\nsauce = \"/b\"\n",
			"list.toml:7: task.files[1].sauce: there is no such field; here are source, name, sha256, executable, extract"},
		{"inline.toml", "name = \"web\"\ntype = \"service\"\n\ntask = { command = \"x\", cpus = \"many\" }\n", "inline.toml:4: task.cpus: it is \"many\"; it must be a number"},
		{"syntax.toml", "name = \"web\"\ntype = service\n", "syntax.toml:2: this is no TOML: "},
		{"deep.json", "{\n \"name\": \"web\",\n \"type\": \"service\",\n \"task\": {\n  \"command\": \"x\",\n  \"files\": [\n   {\"source\": 1}\n  ]\n }\n}\n",
			"deep.json:7: task.files[0].source: it is 1; it must be a text, in quotes"},
		{"secret.toml", "name = \"web\"\ntype = \"service\"\n[task]\ncommand = \"x\"\n[[task.secrets]]\nid = \"eng/db\"\nenv = \"A\"\n[[task.secrets]]\n" +
			"id = \"eng/key\"\nenv = \"TENDER_A\"\n", "secret.toml:10: task.secrets[1].env: names that begin with TENDER_ are Tender's own"},
		{"secret.json", "{\n \"name\": \"etl\",\n \"type\": \"dag\",\n \"steps\": [\n  {\"name\": \"a\", \"task\": {\"command\": \"x\", \"secrets\": [\n" +
			"   {\"env\": \"A\",\n    \"id\": \"db\"}]}}]}\n", "secret.json:7: steps[0].task.secrets[0].id: \"db\" names no secret; it is written ROLE/NAME"},
		{"syntax.json", "{\n \"name\": \"web\",,\n}", "syntax.json:2: this is no JSON: "},
		{"twice.json", "{\"name\": \"web\",\n \"type\": \"batch\",\n \"task\": {\"command\": \"a\",\n  \"command\": \"b\"}}", "twice.json:4: task.command: it is there twice"},
		{"list.json", "[{\"name\": \"web\"}]", "list.json:1: it is a list; a file holds one job"},
		{"mark.json", "\ufeff{\"name\": \"web\",\n \"type\": \"batch\"}", "mark.json:1: task.command: it is missing"},
		{"mark.toml", "\ufeffname = \"web\"\ntype = \"batch\"\ntask.cpus = 0.0004\ntask.command = \"x\"\n", "mark.toml:3: task.cpus: it is 0.0004; write 0.001 to 1000000000"},
		{"section.toml", "name = \"web\"\ntype = \"batch\"\ntask.command = \"x\"\n\n[service]\ncount = 2\n", "section.toml:5: service: it belongs to jobs of type"},
		{"dots.toml", "name = \"web\"\ntype = \"batch\"\ntask.command = \"x\"\nservice.count = 2\n", "dots.toml:4: service: it belongs to jobs of type"},
		{"zero.toml", "name = \"web\"\ntype = \"batch\"\n[task]\ncommand = \"x\"\nattempts = 0\nkill_grace = \"0s\"\n",
			"zero.toml:5: task.attempts: it is 0; write 1 to 1000000, or leave it out\nzero.toml:6: task.kill_grace: it is 0s; write a time such as \"30s\", or leave it out"},
		{"missing.toml", "type = \"batch\"\ntask.command = \"x\"\n", "missing.toml:1: name: it is missing; write one such as \"web\""},
	} {
		name := filepath.Join(t.TempDir(), test.name)
		if err := os.WriteFile(name, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readJob(name, nil, time.Unix(0, 0))
		if err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), filepath.Dir(name)+"/", ""), test.want) {
			t.Errorf("%s says\n%v\nwant\n%s", test.name, err, test.want)
		}
	}
	if job, err := readJob("-", strings.NewReader(`{"name":"web","type":"service","task":{"command":"x"}}`), time.Unix(0, 0)); err != nil || job.Name != "web" {
		t.Errorf("standard input: %v", err)
	}
}

// TestDocumentedJobsAreGood reads all examples in docs/jobs.md.
func TestDocumentedJobsAreGood(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```toml\n")[1:]
	if len(parts) < 4 {
		t.Errorf("docs/jobs.md has %d examples", len(parts))
	}
	for _, part := range parts {
		example, _, _ := strings.Cut(part, "```")
		if _, err := readJob("-", strings.NewReader(example), time.Unix(0, 0)); err != nil {
			t.Errorf("%v\n%s", err, example)
		}
	}
}
