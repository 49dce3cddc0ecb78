// Package nearby lets programs of one user find the token and the masters of a cluster that the same user runs on this
// machine by `tender dev`, so that nobody has to pass them on. There is a file for each master, in a folder that only that user can
// read. The process that runs the cluster holds a lock on it, so that the file of a killed cluster is ignored. The
// package joins no cluster itself.
//
// The contexts of `tender login` are not used for this: they are what a person has chosen, stay when the cluster has
// gone, and are not read by frameworks.
package nearby

// Users are the users whose clusters a process may use: its own user, and the one who started it as root by sudo.
type Users []int
