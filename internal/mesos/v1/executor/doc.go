// Package executorv1 has the generated messages of the calls and events of Mesos's executor API. It holds no logic.
package executorv1
