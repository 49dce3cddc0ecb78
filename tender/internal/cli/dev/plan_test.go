package dev

import (
	"path/filepath"
	"testing"
)

// An agent's folder is named after its number, so that nobody takes the name for an ID. The folder of an older version
// keeps its name, also in a cluster that was moved.
func TestFoldersOfAgentsAreNoIDs(t *testing.T) {
	dir := t.TempDir()
	kept := Cluster{Dir: dir, Masters: []Master{{GRPC: at(portMin)}}, Agents: []Agent{{HTTP: at(portMin + 1), Dir: "/elsewhere/agent-1"}}}
	agents, err := planAgents(kept, 2, newLook(kept))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"agent-1", "host-2"} {
		if agents[i].Dir != filepath.Join(dir, want) {
			t.Errorf("agent %d has the folder %s, want %s", i, agents[i].Dir, want)
		}
	}
}

// A plan contains no port twice, nor one that a kept cluster has.
func TestNoPortIsPlannedTwice(t *testing.T) {
	for range 3 {
		kept := Cluster{Masters: []Master{{GRPC: at(portMin + 1), HTTP: at(portMin + 2), Raft: at(portMin + 3)}}, Agents: []Agent{{HTTP: at(portMin + 4)}}}
		seen := map[string]bool{at(portMin + 1): true, at(portMin + 2): true, at(portMin + 3): true, at(portMin + 4): true}
		look := newLook(kept)
		look.next = spans*spanPorts - 2 // close to the end, so that it begins again at the start
		for range 5 {
			ports, err := look.freePorts(3)
			if err != nil {
				t.Fatal(err)
			}
			for _, port := range ports {
				if seen[at(port)] || port < portMin || port >= claimMin {
					t.Fatalf("port %d is found again, or outside of its range", port)
				}
				seen[at(port)] = true
			}
		}
	}
}

// Clients of Mesos look for a master at 5050 and for agents at 5051: there is the gateway of a cluster that has one, and
// none of its masters and agents.
func TestAGatewayHasTheDefaultPortsOfHTTP(t *testing.T) {
	cluster, _, err := plan(t.TempDir(), 1, 1, true, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{cluster.Masters[0].HTTP, cluster.Agents[0].HTTP} {
		if address == at(masterHTTP) || address == at(agentHTTP) {
			t.Errorf("%s is taken from the gateway", address)
		}
	}
}

// Clusters that are planned at the same time, before anybody listens, are promised different ports.
func TestClustersShareNoPorts(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		cluster, claimed, err := plan(t.TempDir(), 3, 2, false, false)
		defer claimed.release()
		if err != nil {
			t.Fatal(err)
		}
		for address := range newLook(cluster).taken {
			if seen[address] {
				t.Errorf("%s is promised to two clusters", address)
			}
			seen[address] = true
		}
	}
}
