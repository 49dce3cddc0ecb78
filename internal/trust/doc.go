// Package trust says who is at the other end of a connection, and proves it.
//
// An [Identity] is what the peer's certificate names, and nothing else: no message can claim one. The transport puts it
// into the context of each call ([With]), and code that decides what a caller may do reads it there ([Of]). The package
// knows nothing of rights: it tells who asks, never what they may.
//
// A cluster has one secret, its [Key], which only the folders of its masters hold. From it all masters derive the same
// [Authority], which signs certificates. The owner of a certificate holds a [Pass]: a private key that never leaves its
// process and its own folder, the certificate, and the roots by which it verifies others. A [Holder] shows the pass on
// connections and checks what the others show; a new pass replaces an old one while connections continue.
//
// A newcomer without a pass has a [Token]: the digest of the authority, by which it recognises the right masters before
// it tells them anything, and a secret, by which the masters know whom an operator has let in.
package trust
