// Package raftlog replicates the registry: it is the adapter between package master/registry, which is pure, and
// hashicorp/raft with raft-boltdb. It owns the data folder's settings and Raft files, the Raft listener, the founding
// and joining of a quorum, and the gate behind which a leader may lead.
//
// It decides nothing about agents, frameworks or offers. Decisions about the other masters are made by package
// master/quorum, which is pure; this package asks, waits and acts. DESIGN.md beside this file tells what it assumes and
// what happens at each crash point.
package raftlog
