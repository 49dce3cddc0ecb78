// Package sim joins the cores of the leader, the agents and the schedulers' SDK in one goroutine: a whole cluster
// as a value that a seed drives through losses, doubles, reorderings between streams, torn
// logs, restarts, reboots, failovers and restored snapshots, and whose promises
// (docs/architecture.md, section 6) are checked at every step and at rest.
//
// The cores, the registry's Apply, the allocators and the wire's conversions are the real
// ones. Around them stand models, each as small as its rules allow: a quorum that commits or
// forgets, an agent's disk of records, executors by the rules of their SDK, what a user's scheduler
// wants and does, streams that keep their order and lose their end.
//
// Time is virtual and jumps to the next deadline. There is no network, disk, lock, goroutine
// or clock, so the same seed tells the same story, byte for byte.
package sim
