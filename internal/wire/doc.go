// Package wire is the one place where protobuf becomes plain values of packages
// api and protocol, and where input is checked: identifiers, roles, resources, enum
// values, durations and the limits of package api.
//
// It is also the form of those values on disk: in the masters' log, in agents' checkpoints
// and in allocators' journals.
//
// XToProto makes the message of X, XFromProto reads it; XOf reads what Tender itself has
// written, without judging it, so that it is read alike for ever. What is wrong is an
// *api.Error of kind Invalid (Limit where a limit is passed, Unsupported for what
// this version does not know) that says what is wrong and what would be right.
// No bytes of any peer make the package panic.
//
// Three degrees of strictness:
//   - calls (scheduler to master, agent to master, executor to agent) are checked in
//     full, except
//   - tasks, which are only read: a wrong task reaches the core as it is, so that it
//     ends ERROR and stops no other; whoever takes tasks calls api.Task.Check;
//   - events (from a master, or from an agent to its executors) are only read, and
//     an event that this version does not know is left out (R24).
//
// Messages share maps, bytes and strings with the values they are made from or
// turned into; both are immutable from then on.
package wire
