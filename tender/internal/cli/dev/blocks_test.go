package dev

import (
	"net"
	"testing"
)

// No two agents offer the same ports, whichever clusters they belong to, as long as there are enough blocks. When there
// are not, the agents of one cluster still have different ones.
func TestAgentsOfSeveralClustersShareNoPorts(t *testing.T) {
	seen := map[TaskPorts]bool{}
	var all claims
	defer func() { all.release() }()
	for range 3 {
		agents := make([]Agent, 2)
		mine := claimBlocks(agents)
		all = append(all, mine...)
		for _, agent := range agents[:min(len(mine), 2)] { // other tests of the machine may have the rest
			if agent.Ports == (TaskPorts{}) || seen[agent.Ports] {
				t.Errorf("an agent has %v, which another one has, or none", agent.Ports)
			}
			seen[agent.Ports] = true
		}
	}

	many := make([]Agent, blocksMax+1)
	rest := claimBlocks(many)
	all = append(all, rest...)
	own := map[TaskPorts]bool{}
	for _, agent := range many[:blocksMax] {
		if own[agent.Ports] || agent.Ports.Last != agent.Ports.First+blockPorts-1 {
			t.Errorf("an agent has %v beside others", agent.Ports)
		}
		own[agent.Ports] = true
	}
	if many[blocksMax].Ports != (TaskPorts{}) {
		t.Error("there are more blocks than ports")
	}
}

// The agents of a kept folder have the ports that they had, unless somebody else has taken them meanwhile.
func TestAgentsKeepTheirPorts(t *testing.T) {
	agents := make([]Agent, 2)
	claimed := claimBlocks(agents)
	if len(claimed) < 2 {
		claimed.release()
		t.Skip("other clusters have the blocks of this machine")
	}
	first, second := agents[0].Ports, agents[1].Ports
	claimed.release()
	other, err := net.Listen("tcp", at(claimMin+numberOf(second)))
	if err != nil {
		t.Skip("another cluster was quicker")
	}
	defer other.Close()
	again := []Agent{{Ports: second}, {Ports: first}}
	claimed = claimBlocks(again)
	defer claimed.release()
	if again[0].Ports == second || again[1].Ports != first {
		t.Errorf("the agents have %v and %v; %v is taken, %v was free", again[0].Ports, again[1].Ports, second, first)
	}
}
