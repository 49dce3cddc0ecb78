package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/alarms"
)

// base is what all rooms of the core share: the configuration, the time of the event that is being stepped, the durable
// state, and the means to emit effects, write records and set timers. It makes no decisions.
type base struct {
	config  Config
	now     time.Time // the time of the event that is being stepped
	effects []Effect  // the effects of that event so far
	state   *state
	disk    disk
	timers  alarms.Alarms[timer]
}

// disk says how far the shell has come with writing records.
type disk struct {
	written  uint64   // the number of the last record that was handed to the shell
	stored   uint64   // the number of the last record that is on disk
	identity uint64   // the number of the last Identity record
	waiting  []waiter // what waits for records, in the order of their numbers
}

// safe says whether a record is on disk. Number 0 stands for a record that an earlier process wrote; it is on disk.
func (d *disk) safe(number uint64) bool { return number <= d.stored }

// waiter is what the core goes on with once a record is on disk.
type waiter struct {
	number uint64
	what   followUp
}

func (b *base) emit(effect Effect) { b.effects = append(b.effects, effect) }

func (b *base) log(message string, fields ...Field) { b.emit(Log{message, fields}) }

func field[S ~string](name string, value S) Field { return Field{name, string(value)} }

// writeRecord applies a record to the state at once and asks the shell to write it to disk. It returns its number.
func (b *base) writeRecord(record Record) uint64 {
	b.state.apply(record)
	b.disk.written++
	b.emit(Checkpoint{Number: b.disk.written, Record: record})
	if _, is := record.(Identity); is {
		b.disk.identity = b.disk.written
	}
	return b.disk.written
}

// follow has something done as soon as a record that was just written is on disk.
func (b *base) follow(number uint64, what followUp) {
	b.disk.waiting = append(b.disk.waiting, waiter{number, what})
}

// mustWait has something done once a record is on disk. It reports false when the record is on disk already; then the
// caller does it itself.
func (b *base) mustWait(number uint64, what followUp) bool {
	if b.disk.safe(number) {
		return false
	}
	b.follow(number, what)
	return true
}

func (b *base) wakeIn(pause time.Duration, what timer) { b.timers.Add(b.now.Add(pause), what) }

// The folder of an executor is SANDBOXES/FRAMEWORK/EXECUTOR; that of a task is tasks/TASK in it. Identifiers are valid
// file names (api.CheckID).

func (b *base) executorFolder(ref api.ExecutorRef) string {
	return b.config.Sandboxes + "/" + string(ref.Framework) + "/" + string(ref.Executor)
}

func (b *base) taskFolder(ref api.ExecutorRef, task api.TaskID) string {
	return b.executorFolder(ref) + "/tasks/" + string(task)
}

func (b *base) frameworkRemoved(id api.FrameworkID) bool {
	f := b.state.frameworks[id]
	return f != nil && f.removed
}

// leaveFramework forgets the agent's copy of a framework that has no tasks or executors here any more.
func (b *base) leaveFramework(id api.FrameworkID) {
	if f := b.state.frameworks[id]; f != nil && f.users <= 0 {
		b.writeRecord(FrameworkForgotten{id})
	}
}

// startIdleTimer starts the idle time of a built-in executor that has no tasks.
func (b *base) startIdleTimer(e *executor) {
	if e.starting.Builtin && len(e.tasks) == 0 {
		e.idleSince = b.now
		b.wakeIn(b.config.ExecutorIdle, timer{kind: timerIdle, run: e.run()})
	}
}
