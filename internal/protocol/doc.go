// Package protocol holds the messages of the three sessions as plain Go values: what schedulers, agents and executors
// send and receive. Package wire converts them to and from protobuf; the cores step them. The comments of the .proto
// files in api/v1 define the protocol; here each type has the name that it has there.
//
// It has no state. Besides the messages it holds rules that several parts of a cluster must follow alike, such as how
// bytes are estimated, how long to wait before the next try, and which versions work together.
package protocol
