// Package remote is an allocator in another process: the masters' half, chosen by `--allocator remote:HOST:PORT`, and
// the half that serves any allocator.Allocator. The protocol is api/v1/allocator.proto, so that the other process may
// be in any language.
//
// The masters' half never waits for the other process: inputs leave in batches, and answers count in the allocation
// after their arrival. The master's core checks every proposal against its ledger (R25), so an allocator that knows
// less than the core, or lies, can't oversell. While the other process is away nothing new is offered, all running
// tasks continue, and Explain says so; when it is back it is told everything anew. [Prompt] is for callers that would
// rather wait: replays, and tests of a server with the suite of allocatortest.
//
// In a cluster with certificates both halves prove their identity: [Serve] joins by the token of a framework and lets
// in only masters of its cluster, and a master gives its session only to a principal that was granted to allocate.
// Whoever decides about offers could starve every framework and learns what each wants, so an address is not enough.
package remote
