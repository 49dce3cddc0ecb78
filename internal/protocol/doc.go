// Package protocol holds the messages of the three sessions as plain Go values:
// what schedulers, agents and executors say and hear. Package wire turns them to
// and from protobuf; the cores step them. The comments of the .proto files in
// api/v1 are the protocol; here each type has the name it has there.
//
// The package holds no logic.
package protocol
