// Package quotav1 has the generated messages of quotas, as the operator API of Mesos knows them. It holds no logic.
package quotav1
