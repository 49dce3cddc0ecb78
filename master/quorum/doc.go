// Package quorum decides what a master makes of the other masters of its quorum: with whom it founds a cluster, whether
// the leader is dead and who follows it, how patient elections are, who is at which address, and what the answers of the
// others agree on. It speaks to nobody and knows no time but what it is told: package raftlog asks, waits and acts, and
// tells it what came of it.
//
// Raft's safety rests on none of these decisions. They decide how soon somebody leads, and who may take part.
package quorum
