// Package guard checks every call of a master against the table of package rights.
//
// A call is admitted ([Guard.Admit]) before its request is read: the transport says who makes it, the registry says
// what the caller was granted. The request of a denied call is read only where the audit log has a line of it. The
// decision goes with the call's context, and handlers ask there on which objects the caller may do it ([ScopeOf]). A
// stream lives only as long as its caller may have it ([Guard.Enter]). Denied calls are counted and named in the log;
// calls that change something are written to the audit log. The package decides nothing itself, and knows no handler.
package guard
