package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrongDaemonSettingsAreTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tender.toml")
	if err := os.WriteFile(file, []byte("data-dir = \"/nowhere\"\nhaertbeat = \"1s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		env  map[string]string
		want []string
	}{
		{args: "master --config " + file, want: []string{file + ":2", `"haertbeat"`, `"heartbeat"`}},
		{args: "master", env: map[string]string{"TENDER_CONFIG": file}, want: []string{file + ":2"}},
		{args: "master --config /nowhere/at/all.toml", want: []string{"--config", "/nowhere/at/all.toml", "no such file"}},
		{args: "master", env: map[string]string{"TENDER_HEARTBEAT": "soon"}, want: []string{"TENDER_HEARTBEAT", `"soon"`, "such as 5s"}},
		{args: "master --data-dir /nowhere --dns nonsense", want: []string{`DNS: "nonsense"`, "HOST:PORT"}},
		{args: "master --data-dir /nowhere --grpc-port 5050", want: []string{"gRPC and HTTP are both to listen at 127.0.0.1:5050"}},
		{args: "master --data-dir /nowhere --bind 0.0.0.0", want: []string{"all addresses of this machine", "--advertise HOST"}},
		{args: "jobs --insecure --bind 0.0.0.0", want: []string{"--bind 0.0.0.0", "--advertise HOST"}},
		{args: "master --data-dir " + filepath.Dir(file) + "/m1 --advertise node-7 --bind 192.0.2.1 --grpc-port 47123", want: []string{"192.0.2.1:47123", "no address of this machine"}},
		{args: "master --bind nonsense", want: []string{`"nonsense"`, "127.0.0.1"}},
		{args: "master --peers m1", want: []string{"--peers", "m1"}},
		{args: "master --min-offer cpus:lots", want: []string{"--min-offer", "lots"}},
		{args: "master --min-offer ports:[1-2]", want: []string{"--min-offer", "no plain amount", "cpus:0.1;mem:64"}},
		{args: "master --grpc-port 0", want: []string{"--grpc-port is 0"}},
		{args: "master --heartbeat 0s", want: []string{"--heartbeat is 0s"}},
		{args: "master --session-timeout 2900ms", want: []string{"--session-timeout is 2.9s", "3 heartbeats of 1s", "write 3s or more"}},
		{args: "master --certificate-life 1s", want: []string{"--certificate-life is 1s", "after 10s"}},
		{args: "master --certificate-life 337h", want: []string{"--certificate-life is 337h0m0s", "336h0m0s", "would count again"}},
		{args: "master --agent-certificate-life 745h", want: []string{"--agent-certificate-life is 745h0m0s", "744h0m0s"}},
		{args: "master --gone-after-of pool=spot", want: []string{`--gone-after-of is "pool=spot"`, "such as pool=spot:5m"}},
		{args: "master --gone-after-of spot:5m", want: []string{`--gone-after-of is "spot:5m"`}},
		{args: "master --log-level loud", want: []string{"--log-level", "loud", "warn"}},
		{args: "master extra", want: []string{`"extra"`}},
		{args: "agent --http-port 70000", want: []string{"--http-port is 70000"}},
		{args: "agent --resources cpus:-1", want: []string{"--resources", "cpus:-1", "negative"}},
		{args: "agent --resources cpu:4;memory:1000", want: []string{"--resources", `"cpu"`, `"memory"`, "did you mean cpus, mem?"}},
		{args: "dev --agent-resources CPUS:4", want: []string{"--agent-resources", "did you mean cpus?"}},
		{args: "agent --resources cpus:0;mem:0", want: []string{`--resources is "cpus:0;mem:0"`, "nothing", "leave it out"}},
		{args: "agent --resources ;", want: []string{"--resources", "nothing"}},
		{args: "agent --recovery-timeout -1s", want: []string{"--recovery-timeout is -1s", "0 for not at all"}},
		{args: "agent --executor-timeout 0s", want: []string{"--executor-timeout is 0s", "above zero"}},
		{args: "agent --executor-idle -1s", want: []string{"--executor-idle is -1s", "above zero"}},
		{args: "agent --sandbox-age 0", want: []string{"--sandbox-age is 0s", "above zero"}},
		{args: "agent --sandboxes-max 0", want: []string{"--sandboxes-max is 0", "1 or more"}},
		{args: "agent --exec-max -1", want: []string{"--exec-max is -1", "0 for none"}},
		{args: "agent --task-pids -1", want: []string{"--task-pids is -1", "0 for any number"}},
		{args: "agent --resources cpus:NaN", want: []string{"--resources", "NaN"}},
		{args: "agent --master nowhere", want: []string{"--master", "nowhere", "HOST:PORT"}},
		{args: "agent --data-dir /nowhere", want: []string{"--join FILE", "token create agent", "--insecure"}},
		{args: "agent --attributes rack", want: []string{"--attributes", "rack"}},
		// The files in deploy/ are read first, so they are valid.
		{args: "master --config ../../../deploy/tender-master.toml --bind 127.0.0.1 --heartbeat 0s", want: []string{"--heartbeat is 0s"}},
		{args: "agent --config ../../../deploy/tender-agent.toml --insecure", want: []string{"--insecure and --join exclude each other"}},
		{args: "agent --config ../../../deploy/tender-agent.toml --http-port 70000", want: []string{"--http-port is 70000"}},
		{args: "dev --masters 2", want: []string{"--masters is 2", "1, 3 or 5"}},
		{args: "dev --masters 3 --allocator-journal j", want: []string{"--allocator-journal", "with 3", "--masters 1"}},
		{args: "dev --agents -1", want: []string{"--agents is -1"}},
		{args: "dev --agent-resources cpus=4", want: []string{"--agent-resources", "cpus=4"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			_, stderr, code := (&shell{dial: nobody, env: test.env}).run(t, strings.Fields(test.args)...)
			if code != 2 || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "tender: ") {
				t.Errorf("exit code %d, %q", code, stderr)
			}
			for _, want := range test.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q does not say %q", stderr, want)
				}
			}
		})
	}
}
