package cli_test

import (
	"encoding/json"
	"slices"
	"syscall"
	"testing"
)

// TestDevRacks: dev puts its agents into racks, gives each a hostname and the attributes that were asked for, and runs
// each in a process that can be killed. The cluster then goes on, and notices that the agent is missing.
func TestDevRacks(t *testing.T) {
	d := startDev(t, "--agents", "3", "--racks", "2", "--attributes", "disk=ssd", "--agent-processes")
	stdout, _, code := tender(t, d.env, "get", "agents", "-o", "json")
	if code != 0 {
		t.Fatalf("get agents ended with %d", code)
	}
	var list struct {
		Items []struct {
			ID, Hostname string
			Attributes   map[string]string
		}
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatal(err)
	}
	var got []string
	hosts := make(map[string]string) // by agent
	for _, agent := range list.Items {
		hosts[agent.ID] = agent.Hostname
		got = append(got, agent.Hostname+" "+agent.Attributes["rack"]+" "+agent.Attributes["disk"]+" "+agent.Attributes["dev"])
	}
	slices.Sort(got)
	if want := []string{"host-1 r1 ssd 1", "host-2 r2 ssd 2", "host-3 r1 ssd 3"}; !slices.Equal(got, want) {
		t.Errorf("agents are %q, want %q", got, want)
	}
	run := start(t, d.env, "run", "--constraint", `attributes["rack"] == "r2"`, "--", "sh", "-c", "echo up; sleep 600")
	run.await("up")
	for _, agent := range d.Agents {
		if hosts[agent.ID] == "host-2" {
			if err := syscall.Kill(agent.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "the masters miss it", func() bool {
		for _, item := range get(t, d.env, "agents").Items {
			if item.Hostname == "host-2" {
				return item.State != "RUNNING"
			}
		}
		return false
	})
	run.signal(syscall.SIGKILL)
	run.wait()
}

// TestDevAttributesOfItsOwn: dev sets some attributes itself, and refuses values for them.
func TestDevAttributesOfItsOwn(t *testing.T) {
	for _, args := range [][]string{{"--attributes", "dev=7"}, {"--racks", "2", "--attributes", "rack=a"}, {"--racks", "-1"}} {
		if _, stderr, code := tender(t, nil, append([]string{"dev"}, args...)...); code != 2 || stderr == "" {
			t.Errorf("%q: exit code %d, %q", args, code, stderr)
		}
	}
}
