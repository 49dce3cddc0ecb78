package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/tenderhq/tender/internal/testing/hang"
)

// askForName makes a DNS query to a master.
func askForName(t *testing.T, address, name string, kind uint16) *dns.Msg {
	t.Helper()
	reply, _, err := (&dns.Client{Timeout: hang.After}).Exchange(new(dns.Msg).SetQuestion(name, kind), address)
	if err != nil {
		t.Fatalf("%s at %s: %v", name, address, err)
	}
	return reply
}

// TestNamesAreAnswered: a leader and a follower answer by DNS with the endpoints that 'tender get endpoints' lists.
// Although the cluster has certificates, DNS clients are not identified.
func TestNamesAreAnswered(t *testing.T) {
	var answerers []string
	next := func() {
		answerers = append(answerers, "127.0.0.1:"+strconv.Itoa(freePort(t)))
		t.Setenv("TENDER_DNS", answerers[len(answerers)-1])
	}
	next()
	c := startTrusted(t)
	next()
	c.master("m2", c.must("token", "create", "master"))
	start(t, c.env, "agent", "--data-dir", c.folder("a1"), "--http-port", strconv.Itoa(freePort(t)), "--resources", "cpus:2;mem:500;disk:100;ports:[31000-31009]",
		"--join", c.must("token", "create", "agent"), "--master", c.masters[0])
	until(t, "two masters and an agent", func() bool {
		masters, _, _ := tender(t, c.env, "get", "masters") // nobody may lead for a moment while the second one joins
		return strings.Contains(masters, "follower") && len(get(t, c.env, "agents", "--state", "RUNNING").Items) == 1
	})
	gate := filepath.Join(t.TempDir(), "gate")
	start(t, c.env, "run", "--name", "Web_App", "-n", "2", "--port", "http", "--check", "ready,interval=100ms,shell:test -e "+gate, "--",
		"sh", "-c", "echo up; exec sleep 1000")
	until(t, "two tasks", func() bool { return len(get(t, c.env, "tasks", "--state", "RUNNING").Items) == 2 })
	for _, address := range answerers {
		var reply *dns.Msg
		until(t, address+" knows the framework", func() bool { // a follower knows it a moment later
			reply = askForName(t, address, "web-app.tender.", dns.TypeSRV)
			return reply.Rcode == dns.RcodeSuccess
		})
		if len(reply.Answer) > 0 {
			t.Errorf("%s tells of what is not ready: %v", address, reply)
		}
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var endpoints []string
	until(t, "two endpoints", func() bool {
		stdout, _, _ := tender(t, c.env, "get", "endpoints", "Web_App", "-o", "name") // it fails while there is none
		endpoints = strings.Fields(stdout)
		return len(endpoints) == 2
	})
	framework := get(t, c.env, "tasks").Items[0].FrameworkID // the answer for its name is cached for a moment
	for _, address := range answerers {
		reply := askForName(t, address, "_http._tcp."+framework+".tender.", dns.TypeSRV)
		var told []string
		for _, record := range reply.Answer {
			service := record.(*dns.SRV)
			agents := askForName(t, address, service.Target, dns.TypeA).Answer
			if len(agents) != 1 {
				t.Fatalf("%s names the agent %s, which is at %v", address, service.Target, agents)
			}
			told = append(told, fmt.Sprintf("%s:%d", agents[0].(*dns.A).A, service.Port))
		}
		slices.Sort(told)
		if !slices.Equal(told, endpoints) {
			t.Errorf("%s tells %v; 'tender get endpoints' lists %v", address, told, endpoints)
		}
		one := askForName(t, address, "web-app-1."+framework+".tender.", dns.TypeA).Answer
		if len(one) != 1 || one[0].(*dns.A).A.String() != "127.0.0.1" {
			t.Errorf("%s says that one of the tasks is at %v", address, one)
		}
		if reply := askForName(t, address, "example.com.", dns.TypeA); reply.Rcode != dns.RcodeRefused {
			t.Errorf("%s answers for others: %v", address, reply)
		}
	}
}
