package protocol

// Revoked is the cause of an error of kind Denied by which whoever called is told that his principal was revoked: no call
// of it will ever be allowed again, by any master of the cluster.
type Revoked string

func (r Revoked) Error() string { return string(r) }
