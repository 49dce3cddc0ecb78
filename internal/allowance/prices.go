package allowance

// Prices of what a session says, in bytes, on top of what its calls take in memory. An agent has them for its executors,
// and the leader for agents and schedulers, so what an executor has paid for holds up no session above it.
const (
	// HeartbeatPrice: an honest peer sends one a second, and each is answered.
	HeartbeatPrice = 32 << 10
	// StatusPrice is for a status of a task from below, because it is answered.
	StatusPrice = 1 << 10
	// MessagePrice is for a message, and MessageBytePrice for each of its bytes, which cross two links. So a connection
	// may send about 4 MiB of messages a second.
	MessagePrice     = 8 << 10
	MessageBytePrice = 16
)
