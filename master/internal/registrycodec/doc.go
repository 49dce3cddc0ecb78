// Package registrycodec is the registry's form on disk (internal/logpb/log.proto): its commands as entries of the log,
// its state as a snapshot, and the hash by which masters compare what they hold. It encodes and decodes; raftlog
// handles files and the log.
//
// What is read was checked before it was written. So it refuses or repairs nothing except damage and formats that this
// version does not know, and every master reads the very same.
package registrycodec
