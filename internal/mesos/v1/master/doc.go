// Package masterv1 has the generated messages of the operator API of Mesos's masters. It holds no logic.
package masterv1
