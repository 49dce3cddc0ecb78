// Package engine is what all policies share: who holds what of which agent, who wants what, what limits,
// guarantees, filters and constraints say to that, and the offers that follow. A policy adds who goes
// first and who has to give way.
//
// It is incremental: the cost of Allocate follows what changed since the last call. An agent is looked at
// again only when it has something more to give, a framework only when it may take something more (see
// dirty.go). Whether a framework is offered an agent is decided in one place, and explained from there
// (decide.go, refusals.go). It is pure: no clock, lock, goroutine or chance. One goroutine calls it.
package engine
