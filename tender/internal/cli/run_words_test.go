package cli

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tenderhq/tender/framework/jobs/jobfile"
)

// TestRunAndJobFilesMeanTheSame: what a flag of 'tender run' and a field of a job file say alike becomes the same in the
// task. Every flag of the table of fields is said here, but for those that say how often a task is tried.
func TestRunAndJobFilesMeanTheSame(t *testing.T) {
	const flags = `--cpus 1.5 --mem 64 --disk 5 --gpus 2 --resources licenses:0.5 --limit cpus=2 --limit mem=128 --limit pids=50
		--image alpine:3.20 --user nobody --dir app --port http --uri /x,name=y,executable,extract,sha256=0000000000000000000000000000000000000000000000000000000000000000
		--secret B=eng/db --secret-file key=eng/tls --label l=m --grace 7s --kill-signal SIGINT --env A=b --shell
		--check ready,interval=1s,timeout=2s,grace=3s,failures=4,tcp:http --check http:http/up --check grpc:http/name --check shell:true`
	const file = `{"name":"x","type":"batch","task":{"command":"c","env":{"A":"b"},"cpus":1.5,"mem":64,"disk":5,"gpus":2,
		"resources":{"licenses":0.5},"limits":{"cpus":2,"mem":128,"pids":50},"image":"alpine:3.20","user":"nobody","dir":"app","ports":["http"],
		"files":[{"source":"/x","name":"y","executable":true,"extract":true,"sha256":"0000000000000000000000000000000000000000000000000000000000000000"}],
		"secrets":[{"id":"eng/db","env":"B"},{"id":"eng/tls","file":"key"}],"labels":{"l":"m"},"kill_grace":"7s","kill_signal":"SIGINT",
		"checks":[{"tcp":"http","readiness":true,"interval":"1s","timeout":"2s","grace":"3s","failures":4},{"http":{"port":"http","path":"/up"}},
			{"grpc":{"port":"http","service":"name"}},{"command":"true"}]}}`
	var f runFlags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.addTo(set)
	if err := set.Parse(append(strings.Fields(flags), "--", "c")); err != nil {
		t.Fatal(err)
	}
	run, err := f.task(set.Args(), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	job, err := jobfile.DecodeJSON([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	filed := job.Task.APITask()
	if run.Resources.String() != filed.Resources.String() {
		t.Errorf("resources %v, and in a job %v", run.Resources, filed.Resources)
	}
	run.Name, run.Resources = "", filed.Resources
	if !reflect.DeepEqual(run, filed) {
		t.Errorf("tender run makes\n%+v\nand a job\n%+v", run, filed)
	}
	elsewhere := []string{
		"COMMAND", "--name", "--role", "--restart", "--timeout", "--unreachable-timeout", "--instances", "--spread", "--constraint", "--volume", "--revocable",
	}
	for _, field := range jobfile.Fields() {
		flag, _, _ := strings.Cut(field.Flag, " ")
		if flag != "" && !slices.Contains(strings.Fields(flags), flag) && !slices.Contains(elsewhere, flag) {
			t.Errorf("nothing here says %s, the flag of %s", flag, field.Name)
		}
	}
}
