// Package quorum makes the decisions of a master about the other masters of its quorum: with which masters it founds a
// cluster, whether the leader is dead and who follows it, how long elections may take, which master is at which
// address, and what the answers of the others agree on. It does no I/O and has no clock: package raftlog asks, waits
// and acts, and tells it the results.
//
// Raft's safety depends on none of these decisions. They decide how soon there is a leader, and who may take part.
package quorum
