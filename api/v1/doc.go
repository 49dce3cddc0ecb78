// Package apiv1 has the messages and services generated from the .proto files beside it, whose comments define the
// protocol. Package api has the same nouns as plain Go values, and frameworks use those. Use this package to speak gRPC
// directly.
package apiv1
