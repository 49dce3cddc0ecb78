// Package trust says who is at the other end of a connection.
//
// An [Identity] is what the peer's certificate names, and nothing else: no message can claim one. The transport puts it
// into the context of each call ([With]), and whoever decides what a caller may do reads it there ([Of]). The package
// knows nothing of rights: it tells who asks, never what they may.
package trust
