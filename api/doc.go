// Package api holds the nouns of Tender as plain Go values: typed identifiers,
// resources and their arithmetic, tasks and the table of their states, offers,
// demand, statuses, typed errors and limits.
//
// Read it in the order in which you meet the nouns: a framework ([Framework])
// subscribes in roles ([Role]) and receives offers ([Offer]) of the resources
// ([Resources]) of agents ([Agent]). It answers ([Answer]) with operations
// ([Operation]), above all launches of tasks ([Task]), and is told of each step
// in a task's life by a status ([Status]).
//
// The package imports the standard library only, starts nothing, and its values
// are safe to share between goroutines as long as nobody writes to them: every
// method returns a new value and changes none.
package api
