package settings_test

import (
	"reflect"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// FuzzFlags: whatever people write about a task, it is refused, or is what an agent reads.
func FuzzFlags(f *testing.F) {
	f.Add("ready,interval=5s,failures=3:http:web/health", "web=80", "https://h/a.tgz,sha256=00,extract", "cpus=2", "P=eng/db")
	f.Add("interval=5s,failures=3,shell:test -f a,b", "web", "/etc/hosts,name=h", "mem=0.5", "")
	f.Add("grpc:web/svc", "web", "x,executable", "pids=9223372036854775807", "A=B=C")
	f.Fuzz(func(t *testing.T, check, port, uri, limit, secret string) {
		checked, err := settings.ParseCheck(check)
		if err != nil {
			return
		}
		ports, err := settings.ParsePorts([]string{port})
		if err != nil {
			return
		}
		file, err := settings.ParseURI(uri)
		if err != nil {
			return
		}
		limits, err := settings.ParseLimits([]string{limit})
		if err != nil {
			return
		}
		secrets, err := settings.ParseSecrets([]string{secret}, nil)
		if err != nil {
			return
		}
		task := api.Task{
			ID: "task", Command: &api.Command{Shell: "true", URIs: []api.URI{file}}, Resources: api.MustParseResources("cpus:1;mem:32"),
			Checks: []api.Check{checked}, Ports: ports, Limits: limits, Secrets: secrets,
		}
		if settings.JudgeTask(task) != nil {
			return
		}
		if read := wire.LaunchFromProto(wire.LaunchToProto(protocol.LaunchTask{Task: task})).Task; !reflect.DeepEqual(read, task) {
			t.Errorf("%+v is read as %+v", task, read)
		}
	})
}
