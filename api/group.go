package api

import "fmt"

// A group of tasks is launched by one operation, on one agent: all of them or none. They share an executor, a user,
// and a folder that TENDER_TASK_SHARED names. When one of them ends other than FINISHED, the others are killed
// (TASK_GROUP_FAILED). What each of them asks for, how it ends, and what it has written stays its own.

// CheckTaskGroup reports why tasks can never be one group, or nil. Each of them is judged by [Task.Check].
func CheckTaskGroup(tasks []Task) error {
	if len(tasks) == 0 || len(tasks) > GroupTasksMax {
		return fmt.Errorf("a group of %d tasks; it must have 1 to %d", len(tasks), GroupTasksMax)
	}
	bytes, named := 0, make(map[TaskID]bool, len(tasks))
	for i := range tasks {
		t, first := &tasks[i], &tasks[0]
		switch {
		case named[t.ID]:
			return fmt.Errorf("the group has two tasks %s; each needs an ID of its own", t.ID)
		case t.ExecutorID() != first.ExecutorID():
			return fmt.Errorf("task %s of the group has executor %s and task %s has %s; a group has one executor",
				first.ID, first.ExecutorID(), t.ID, t.ExecutorID())
		case t.RunsAs() != first.RunsAs():
			return fmt.Errorf("task %s of the group asks for the user %q and task %s for %q; a group runs as one user",
				first.ID, first.RunsAs(), t.ID, t.RunsAs())
		case t.Owner != first.Owner:
			return fmt.Errorf("task %s of the group has the owner %q and task %s has %q; a group runs as one user", first.ID, first.Owner, t.ID, t.Owner)
		}
		named[t.ID] = true
		bytes += t.Bytes()
	}
	if bytes > GroupBytesMax {
		return fmt.Errorf("the tasks of the group have %d bytes together, at most %d are allowed; bring more by a URI", bytes, GroupBytesMax)
	}
	return nil
}

// RunsAs returns the user as whom the task asks to run, or "" if it names none. A framework's own executor and all of
// its tasks run as one user.
func (t *Task) RunsAs() string {
	switch {
	case t.Executor != nil:
		return t.Executor.Command.User
	case t.Command != nil:
		return t.Command.User
	}
	return ""
}
