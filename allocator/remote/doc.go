// Package remote is an allocator in another process: the masters' half, chosen by
// `--allocator remote:HOST:PORT`, and the half that serves any allocator.Allocator. The
// protocol is api/v1/allocator.proto, so that the other process may be in any language.
//
// The masters' half never waits for the other process: inputs leave in batches, and
// what comes back counts in the allocation after its arrival. The master's core checks
// every proposal against its ledger (R25), so an allocator that knows less than the
// core, or lies, can't oversell. While the other process is away nothing new is
// offered, all that runs goes on, and Explain says so; when it is back it is told
// everything anew. [Prompt] is for those who would rather wait: replays, and tests of a
// server with the suite of allocatortest.
//
// In a cluster with certificates both halves prove who they are: [Serve] joins by the token of a framework and lets in
// masters of its cluster alone, and a master gives its session to nobody whose principal was not granted to allocate. Who
// decides about offers could starve everybody and learns what each framework wants, so an address is not enough.
package remote
