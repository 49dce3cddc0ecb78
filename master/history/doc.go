// Package history keeps what has happened in the cluster on a master's disk: the events that the leader tells, in two
// rings of bounded size and age, so that routine never pushes out what is notable, and no framework what is of another
// one. It finds the newest events of a thing, of a kind, of a caller or of a time.
//
// It never makes its caller wait for a disk, never takes the disk's last room, and never tells an event that was not
// told to it: what it could not keep, or can't read any more, it says instead. It knows nothing of masters, streams and
// rights.
//
// DESIGN.md tells what is written when, and what happens at each crash point.
package history
