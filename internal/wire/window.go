package wire

// Windows of HTTP/2 flow control, the same at both ends of every session. That they are said at all keeps
// gRPC from measuring the bandwidth with pings of its own beside the messages: a tenth of what a heartbeat cost.
const (
	// StreamWindowBytes is how much one side may send on a stream before the other has read it. It holds
	// the largest message.
	StreamWindowBytes = 1 << 20
	// ConnWindowBytes is the same for all streams of a connection together.
	ConnWindowBytes = 4 << 20
)
