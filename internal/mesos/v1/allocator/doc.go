// Package allocatorv1 has the generated messages of answers to inverse offers, as the operator API of Mesos tells
// them. It holds no logic.
package allocatorv1
