// Package web is the page: a window on the cluster that people leave open.
//
// It is one handler, made from the services for people and nothing else, so it can show and do only what the command
// line can. A view is a value, a page with blocks; it is shown whole to whoever asks for its address, and block by block
// to whoever keeps it open. The package knows no session, certificate or master: who serves it (a master, tender ui)
// says on each request for whom it is, and calls the cluster in that person's name.
//
// It holds no state of the cluster beyond a copy for those who see the same, with what was changed in it of late, and the
// commands inside tasks that somebody has open.
package web
