// Package master is the shell of one master: it owns the listeners, the streams of schedulers and agents, the data
// folder, the clock and the loop that runs the leader's core while this master leads.
//
// It decides nothing: package core does, and package registry under the quorum's commits. A master that does not lead
// answers which master does.
package master
