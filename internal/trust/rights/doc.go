// Package rights says who may do what: one table of everything that can be asked of a master or an agent, and what a
// principal was granted.
//
// [Decide] is the only judge. It is asked with a [Row] of the table and a [Caller]. Its answer is a [Scope], which says
// on which objects the caller may do it, or an error that says which grant is missing and how to give it. A call that
// is not in the table is denied to everybody. The package knows no connection, no registry and no clock: it is told who
// the caller is.
package rights
