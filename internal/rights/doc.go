// Package rights says who may do what: one table of everything that can be asked of a master or an agent, and what a
// principal was granted.
//
// [Decide] is the only judge. It is asked with a [Row] of the table and a [Caller]; its answer is a [Scope], which says on
// which objects the caller may do it, or an error that says what is missing and how to give it. What is not in the table
// nobody may do. The package knows no connection, no registry and no clock: who somebody is, it is told.
package rights
