// Package schedulerv1 has the generated messages of the calls and events of Mesos's scheduler API. It holds no logic.
package schedulerv1
