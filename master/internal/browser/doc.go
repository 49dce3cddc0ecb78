// Package browser lets people look at a cluster with a browser, which has no certificate to show.
//
// To log in, a person enters an operator's token once. The answer is a cookie that names the principal and expires by
// itself. It is signed by a key that is derived from the cluster's, so every master recognises it, and none has to
// remember it. The package owns the cookie, the two pages and the headers of every answer. It decides about no right:
// for the guard, the sender of a cookie is its principal, who may look and change nothing. (docs/security.md, With a
// browser.)
package browser
