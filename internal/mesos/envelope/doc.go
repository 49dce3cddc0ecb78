// Package envelope holds what travels between the gateway for Mesos's frameworks and the adapter for their executors,
// inside the data of Tender's tasks. Neither masters nor agents read it.
package envelope
