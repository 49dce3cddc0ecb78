// Package logpb holds the generated messages of what is written to disk: the Raft
// log and snapshots of the registry. The comments of log.proto say what each is.
//
// It holds no logic.
package logpb
