package dev

import "testing"

// A plan has no port twice, nor one that a kept cluster has.
func TestNoPortIsPlannedTwice(t *testing.T) {
	for range 3 {
		kept := Cluster{Masters: []Master{{GRPC: at(portMin + 1), HTTP: at(portMin + 2), Raft: at(portMin + 3)}}, Agents: []Agent{{HTTP: at(portMin + 4)}}}
		seen := map[string]bool{at(portMin + 1): true, at(portMin + 2): true, at(portMin + 3): true, at(portMin + 4): true}
		look := newLook(kept)
		look.next = PortsEnd - portMin - 2 // before the end, so that it begins anew
		for range 5 {
			ports, err := look.freePorts(3)
			if err != nil {
				t.Fatal(err)
			}
			for _, port := range ports {
				if seen[at(port)] || port < portMin || port >= PortsEnd {
					t.Fatalf("port %d is found again, or outside of its range", port)
				}
				seen[at(port)] = true
			}
		}
	}
}
