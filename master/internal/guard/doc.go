// Package guard holds every call of a master to the table of package rights.
//
// A call is admitted ([Guard.Admit]) before its request is read: who makes it, the transport says; what he was granted,
// the registry says. The request of one that was denied is read only where the audit log has a line of it. What was
// decided goes with the call's context, and handlers ask there on which objects the caller may do it ([ScopeOf]). A stream
// lives only as long as its caller may have it ([Guard.Enter]). What is denied is counted and named in the log; what
// changes something is written to the audit log. The package decides nothing itself, and knows no handler.
package guard
