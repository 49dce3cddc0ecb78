// Package mesosv1 has the generated messages of what the APIs of Mesos share: tasks, offers, resources, statuses. It
// holds no logic.
package mesosv1
