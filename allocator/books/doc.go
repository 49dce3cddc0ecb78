// Package books is the bookkeeping that policies share: who holds what of which
// agent, who may be offered what, and in which order. A policy is these books with
// its [Options]; what it adds are the rules that are its own.
//
// The books are incremental: the cost of Allocate follows what changed since the last
// call. An agent is looked at again only when it has something more to give, a
// framework only when it may take something more (see dirty.go). They are pure: no
// clock, lock, goroutine or chance. One goroutine calls them.
package books
