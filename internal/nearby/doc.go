// Package nearby lets programs of one user find the token of a cluster that the same user runs on this machine by `tender
// dev`, so that nobody has to hand it over. It is a file for each master, in a folder that only that user can read; whoever
// runs the cluster holds a lock on it, so that the file of one that was killed counts for nothing. It joins no cluster itself.
//
// The contexts of `tender login` are no place for it: they are what a person has chosen, stay when the cluster has gone, and
// are nothing that a framework looks at.
package nearby

// Users are those whose clusters a process may use: its own user, and whoever became root by sudo to start it.
type Users []int
