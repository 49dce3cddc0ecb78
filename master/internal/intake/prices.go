package intake

import (
	"github.com/tenderhq/tender/internal/allowance"
	"github.com/tenderhq/tender/internal/protocol"
)

// The prices of calls, in bytes of CallsExpense, come on top of the memory that the calls take; those that agents ask of
// executors too are in package allowance. A connection has 64 MiB a second of that. A price is about ten times what such
// a call costs the leader compared to a launch, because an honest peer makes few of these calls, and many of them would
// keep the loop busy for nothing. Launches, acknowledgements and statuses of schedulers have no price, because they are
// the real work.
const (
	// askedPrice is for each task or operation that is asked about, because each gets an answer.
	askedPrice = 4 << 10
	// allPrice is for asking about all tasks or operations.
	allPrice = 512 << 10
	// killPrice: a kill of an unknown task makes the leader ask an agent.
	killPrice = 8 << 10
	// demandPrice: a demand is compared with everything that is free.
	demandPrice = 8 << 10
	// changePrice is for a call that may change the registry.
	changePrice = 128 << 10
	// SubscribedSessions is for how many sessions of agents a subscription counts, because it always asks the quorum.
	SubscribedSessions = 4
	// secretsPrice is for a request for a task's secrets, because they are unsealed and sent, up to 256 KiB.
	secretsPrice = 64 << 10
	// refusedPrice is charged for each call that is refused, and each time that an agent speaks of something that is
	// not its own or does not exist. In addition, the weight of such calls is charged refusedTimes. A launch of
	// thousands of tasks has been decoded into values, about five times as large as its message, before it turns out
	// that its offer is gone.
	refusedPrice = 32 << 10
	refusedTimes = 64
	// UnknownPrice is charged for each answer that a task is unknown. Tasks of agents that are not back yet do not
	// count as unknown, so an honest scheduler gets few such answers.
	UnknownPrice = refusedPrice
	// EndedPrice is charged for a message because of which a stream is ended.
	EndedPrice = 32 << 20
	// LookPrice is for a call with one answer; people and programs make a few of them a second. storePrice is for a
	// call to a store, beside its bytes, and writePrice for each write in it.
	LookPrice  = 512 << 10
	storePrice = 4 << 10
	writePrice = 1 << 10
	// WholePrice is charged in addition to LookPrice after an answer that covers everything: the page of metrics, the
	// hash of the registry. Nobody needs these several times a second, and whoever asks more often waits before the
	// next answer.
	WholePrice = 16 << 20
)

// RefusalPrice returns the price when refused of the calls in a part of this weight were refused.
func RefusalPrice(refused, calls, weight int) float64 {
	if refused == 0 {
		return 0
	}
	return float64(refused*refusedPrice) + float64(refusedTimes*weight)*float64(refused)/float64(max(calls, refused))
}

// schedulerPrice returns the price of a scheduler's calls.
func schedulerPrice(calls []protocol.NumberedCall) int {
	price := 0
	for _, call := range calls {
		price += schedulerCallPrice(call.Call)
	}
	return price
}

func schedulerCallPrice(call protocol.SchedulerCall) int {
	switch call := call.(type) {
	case protocol.SchedulerHeartbeat:
		return allowance.HeartbeatPrice
	case protocol.Unsettled:
		return askedPrice * len(call.Tasks)
	case protocol.Reconcile:
		return askedOrAll(len(call.Tasks))
	case protocol.ReconcileOperations:
		return askedOrAll(len(call.Operations))
	case protocol.Kill:
		return killPrice
	case protocol.JobEvent:
		return allowance.MessagePrice + allowance.MessageBytePrice*len(call.Event.Why)
	case protocol.JobDemand:
		return allowance.MessagePrice + askedPrice/16*len(call.Wanted)
	case protocol.SetDemand:
		return demandPrice * (1 + len(call.Shapes))
	case protocol.MessageExecutor:
		return allowance.MessagePrice + allowance.MessageBytePrice*len(call.Data)
	case protocol.ShutdownExecutor, protocol.UpdateFramework, protocol.Suppress, protocol.Revive, protocol.Teardown:
		return changePrice
	default: // all others have no price of their own
	}
	return 0
}

// askedOrAll returns the price of asking about that many tasks or operations, or about all when none is named.
func askedOrAll(named int) int {
	if named == 0 {
		return allPrice
	}
	return askedPrice * named
}

// agentPrice returns the price of an agent's calls.
func agentPrice(calls []protocol.AgentCall) int {
	price := 0
	for _, call := range calls {
		switch call := call.(type) {
		case protocol.AgentHeartbeat:
			price += allowance.HeartbeatPrice
		case protocol.StatusUpdate:
			price += allowance.StatusPrice
		case protocol.MessageFromExecutor:
			price += allowance.MessagePrice + allowance.MessageBytePrice*len(call.Data)
		case protocol.NeedSecrets:
			price += secretsPrice
		default: // all others have no price of their own
		}
	}
	return price
}
