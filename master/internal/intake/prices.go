package intake

import "github.com/tenderhq/tender/internal/protocol"

// Prices of calls, beside the memory that they take: bytes of CallsExpense, of which a connection has 64 MiB a second. A
// price is some ten times what the call costs the leader beside a launch, as an honest peer says few of these, and many
// of them would keep its loop busy for nothing. Launches, acknowledgements and statuses have none: they are the work.
const (
	// heartbeatPrice: an honest peer says one a second, and each is answered.
	heartbeatPrice = 32 << 10
	// askedPrice is that of each task or operation that is asked for: an answer is made of it.
	askedPrice = 4 << 10
	// allPrice is that of asking for all of something.
	allPrice = 512 << 10
	// killPrice: of a task that nobody knows an agent is asked.
	killPrice = 8 << 10
	// demandPrice: what is asked for is compared with all that is free.
	demandPrice = 8 << 10
	// messagePrice is that of a message, and messageBytePrice of each of its bytes, which cross two links for one word:
	// a connection may send some 4 MiB of them a second.
	messagePrice     = 8 << 10
	messageBytePrice = 16
	// changePrice is that of what may change the registry.
	changePrice = 128 << 10
	// statusPrice is that of a status of a task: it is answered.
	statusPrice = 1 << 10
	// SubscribedSessions is for how many sessions of agents a subscription counts: it always asks the quorum.
	SubscribedSessions = 4
	// secretsPrice is that of a task's secrets: they are opened and sent, up to 256 KiB.
	secretsPrice = 64 << 10
	// refusedPrice is charged for each call that is refused, and for each word of an agent about what is not its own or
	// not there; besides, what such calls weigh counts refusedTimes again: a launch of thousands of tasks has been made into
	// values, some five times what it weighs, before anybody sees that its offer is not there.
	refusedPrice = 32 << 10
	refusedTimes = 64
	// UnknownPrice is charged for each answer that nobody knows a task. Tasks of agents that are yet to come back are not
	// among these, so an honest scheduler hears it of few.
	UnknownPrice = refusedPrice
	// EndedPrice is charged for a message for which a stream is ended.
	EndedPrice = 32 << 20
	// LookPrice is that of a call with one answer: people and programs look a few times a second. storePrice is that of
	// a call to a store, beside its bytes.
	LookPrice  = 512 << 10
	storePrice = 4 << 10
	// WholePrice is charged beside LookPrice after an answer that was made of everything there is: the page of metrics, the
	// hash of the registry. Nobody asks for these several times a second, and who does waits before the next answer.
	WholePrice = 16 << 20
)

// RefusalPrice is charged when so many of the calls of a part that weighs so much were refused.
func RefusalPrice(refused, calls, weight int) float64 {
	if refused == 0 {
		return 0
	}
	return float64(refused*refusedPrice) + float64(refusedTimes*weight)*float64(refused)/float64(max(calls, refused))
}

// SchedulerPrice is that of some calls.
func SchedulerPrice(calls []protocol.NumberedCall) int {
	price := 0
	for _, call := range calls {
		price += schedulerCallPrice(call.Call)
	}
	return price
}

func schedulerCallPrice(call protocol.SchedulerCall) int {
	switch call := call.(type) {
	case protocol.SchedulerHeartbeat:
		return heartbeatPrice
	case protocol.Unsettled:
		return askedPrice * len(call.Tasks)
	case protocol.Reconcile:
		return askedOrAll(len(call.Tasks))
	case protocol.ReconcileOperations:
		return askedOrAll(len(call.Operations))
	case protocol.Kill:
		return killPrice
	case protocol.SetDemand:
		return demandPrice * (1 + len(call.Shapes))
	case protocol.MessageExecutor:
		return messagePrice + messageBytePrice*len(call.Data)
	case protocol.ShutdownExecutor, protocol.UpdateFramework, protocol.Suppress, protocol.Revive, protocol.Teardown:
		return changePrice
	default: // has no price of its own
	}
	return 0
}

// askedOrAll is the price of a question about so many, or about all when none is named.
func askedOrAll(named int) int {
	if named == 0 {
		return allPrice
	}
	return askedPrice * named
}

// AgentPrice is that of some calls.
func AgentPrice(calls []protocol.AgentCall) int {
	price := 0
	for _, call := range calls {
		switch call := call.(type) {
		case protocol.AgentHeartbeat:
			price += heartbeatPrice
		case protocol.StatusUpdate:
			price += statusPrice
		case protocol.MessageFromExecutor:
			price += messagePrice + messageBytePrice*len(call.Data)
		case protocol.NeedSecrets:
			price += secretsPrice
		default: // has no price of its own
		}
	}
	return price
}
