// Package browser is the door of the page for people who have no certificate to show: it lets them log in with a browser.
//
// To log in, a person enters an operator's token once. The answer is a cookie that names the principal and expires by
// itself. It is signed by a key that is derived from the cluster's, so every master recognises it, and none has to
// remember it. The package owns the cookie and the login page. It decides about no right: for the guard, the sender of a
// cookie is its principal, who may change only what the page has a form for. (docs/security.md, With a browser.)
package browser
