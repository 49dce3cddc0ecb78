// Package agentv1 has the generated messages of the operator API of Mesos's agents. It holds no logic.
package agentv1
