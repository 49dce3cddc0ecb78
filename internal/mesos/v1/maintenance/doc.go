// Package maintenancev1 has the generated messages of maintenance schedules, as the operator API of Mesos knows them.
// It holds no logic.
package maintenancev1
