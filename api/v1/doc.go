// Package apiv1 is the wire: messages and services generated from the .proto files
// beside it, whose comments are the protocol. Package api has the same nouns as
// plain Go values, and frameworks use those; this package is for who speaks gRPC.
package apiv1
