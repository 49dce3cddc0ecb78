// Package browser lets people look at a cluster with a browser, which has no certificate to show.
//
// Who logs in shows the token of an operator once. What comes back is a cookie that names the principal and ends by itself:
// it is signed by a key that follows from the cluster's, so every master knows it, and none remembers any. The package owns the
// cookie, the two pages and the headers of every answer. It decides about no right: who shows a cookie is its principal for the
// guard, which lets it look and change nothing. (docs/security.md, With a browser.)
package browser
