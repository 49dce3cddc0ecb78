package protocol

// Revoked is the cause of an error of kind Denied that tells a caller that its principal was revoked: no master of the
// cluster will ever allow a call of that principal again.
type Revoked string

func (r Revoked) Error() string { return string(r) }
