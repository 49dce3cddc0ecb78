// Package intake is between peers and the loop of a master: who waits for it, in which order, and with how much room.
// Whatever a peer sends is weighed, paid for by its connection, its address and its principal, read at the desk in turns by weight, and
// waits in a lane for the loop. Nothing here grows with what one peer sends: who sends more waits. (Protocol rule R34.)
//
// It knows neither the loop nor the core: what waits is of any type, and nothing of it is looked into but its price.
package intake
