package dev

import "net"

// The agents of all clusters on the machine divide the ports from portsEnd to blocksEnd among them, in blocks, so that no
// two promise their tasks the same ports. Above these are the ports that systems take for outgoing connections.
const (
	blocksEnd  = 32000
	blockPorts = 100
	blocksMax  = (blocksEnd - portsEnd) / blockPorts
	// Whoever holds the port claimMin+N has block N. So a claim ends with its process, and holds for all users.
	claimMin = portsEnd - blocksMax
)

// TaskPorts are the ports that an agent offers to tasks; the zero value: none.
type TaskPorts struct {
	First uint16 `json:"first,omitempty"`
	Last  uint16 `json:"last,omitempty"`
}

func block(number int) TaskPorts {
	first := blocksEnd - (number+1)*blockPorts
	return TaskPorts{uint16(first), uint16(first + blockPorts - 1)}
}

// claims are the blocks that this process has; each is held until it is released.
type claims []net.Listener

// claimBlocks gives each agent a block. An agent of a kept folder has its former one if that is still free. When other
// clusters have all blocks, the agents share theirs, and the agents' own tries keep tasks apart. The agents of one
// cluster never share; those beyond blocksMax have no ports.
func claimBlocks(agents []Agent) claims {
	var claimed claims
	claim := func(number int) bool {
		held, err := net.Listen("tcp", at(claimMin+number))
		if err == nil {
			claimed = append(claimed, held)
		}
		return err == nil
	}
	used := map[TaskPorts]bool{}
	for i := range agents {
		if number := numberOf(agents[i].Ports); number < 0 || used[agents[i].Ports] || !claim(number) {
			agents[i].Ports = TaskPorts{}
		}
		used[agents[i].Ports] = true
	}
	for _, mayTake := range []func(int) bool{claim, func(int) bool { return true }} {
		next := 0
		for i := range agents {
			for ; agents[i].Ports == (TaskPorts{}) && next < blocksMax; next++ {
				if !used[block(next)] && mayTake(next) {
					agents[i].Ports = block(next)
					used[block(next)] = true
				}
			}
		}
	}
	return claimed
}

// numberOf returns the number of a block; -1 if the ports are none.
func numberOf(ports TaskPorts) int {
	for number := range blocksMax {
		if block(number) == ports {
			return number
		}
	}
	return -1
}

func (c claims) release() {
	for _, held := range c {
		_ = held.Close() // nothing was written
	}
}
