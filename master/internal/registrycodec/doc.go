// Package registrycodec is the registry's form on disk (internal/logpb/log.proto): its commands as
// entries of the log, its state as a snapshot, and the hash by which masters compare what they
// hold. It encodes and decodes; files and the log are raftlog's.
//
// What is read was checked before it was written: nothing is refused or mended here but
// damage and formats that this version does not know, so that every master reads the very same.
package registrycodec
