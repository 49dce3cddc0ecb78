// Package memnet is a network in memory for tests: listeners with names, connections
// between named hosts, and faults between them. It has no sockets and no goroutines
// of its own, waits only on condition variables and timers, and so works inside
// testing/synctest bubbles, with the bubble's clock.
//
//	n := memnet.New()
//	listener, err := n.Listen("m1:5060")
//	conn, err := n.From("a1").Dial(ctx, "m1:5060")
//	n.Cut("a1", "m1") // silence in both directions
//
// Hosts are what stands before the port. It never loses, doubles or reorders bytes
// within a connection, as TCP does not.
package memnet
