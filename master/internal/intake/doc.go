// Package intake is between peers and the loop of a master: who waits for the loop, in which order, and with how much
// room. Whatever a peer sends is weighed, paid for by its connection, its address and its principal, read at the desk
// in turns by weight, and waits in a lane for the loop. Nothing here grows with what one peer sends: a peer that sends
// more waits. (Protocol rule R34.)
//
// It knows neither the loop nor the core: what waits is of any type, and only its price is looked at.
package intake
