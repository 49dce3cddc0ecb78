package wire

import (
	"math"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

// UsageToProto makes the message of a sample; nil for the zero sample.
func UsageToProto(usage api.Usage) *apiv1.Usage {
	if usage == (api.Usage{}) {
		return nil
	}
	return &apiv1.Usage{
		At:        TimeToProto(usage.At),
		CpuMilli:  int64(usage.CPU),
		CpuTime:   DurationToProto(usage.CPUs),
		MemMilli:  int64(usage.Mem),
		Processes: int32(max(0, min(math.MaxInt32, usage.Procs))),
	}
}

func (c *checker) usage(m *apiv1.Usage) api.Usage {
	if m == nil {
		return api.Usage{}
	}
	if m.Processes < 0 {
		c.fail("a usage counts %d processes; it must not be negative", m.Processes)
	}
	return api.Usage{
		At:    c.time("the time of a usage", m.At),
		CPU:   c.amount("cpu of a usage", m.CpuMilli),
		CPUs:  c.duration("processor time of a usage", m.CpuTime),
		Mem:   c.amount("mem of a usage", m.MemMilli),
		Procs: int(m.Processes),
	}
}

// UsageReportToProto makes the message of a report.
func UsageReportToProto(report protocol.UsageReport) *apiv1.UsageReport {
	m := &apiv1.UsageReport{Total: UsageToProto(report.Total)}
	for ref, usage := range report.Executors { // order: irrelevant because a map is made of it again
		m.Executors = append(m.Executors, &apiv1.ExecutorUsage{
			FrameworkId: clean(ref.Framework), ExecutorId: clean(ref.Executor), Usage: UsageToProto(usage),
		})
	}
	for ref, usage := range report.Tasks { // order: irrelevant because a map is made of it again
		m.Tasks = append(m.Tasks, &apiv1.TaskUsage{
			FrameworkId: clean(ref.Framework), TaskId: clean(ref.Task), Usage: UsageToProto(usage),
		})
	}
	return m
}

func (c *checker) usageReport(m *apiv1.UsageReport) protocol.UsageReport {
	report := protocol.UsageReport{Total: c.usage(m.GetTotal())}
	if executors := m.GetExecutors(); len(executors) > 0 {
		report.Executors = make(map[api.ExecutorRef]api.Usage, len(executors))
		for _, one := range executors {
			ref := c.executorRef(one.GetFrameworkId(), one.GetExecutorId())
			report.Executors[ref] = c.usage(one.GetUsage())
		}
	}
	if tasks := m.GetTasks(); len(tasks) > 0 {
		report.Tasks = make(map[api.TaskRef]api.Usage, len(tasks))
		for _, one := range tasks {
			ref := c.taskRef(one.GetFrameworkId(), one.GetTaskId())
			report.Tasks[ref] = c.usage(one.GetUsage())
		}
	}
	return report
}

func (c *checker) taskRef(framework, task string) api.TaskRef {
	return api.TaskRef{
		Framework: api.FrameworkID(c.id("framework ID", framework)),
		Task:      api.TaskID(c.id("task ID", task)),
	}
}

func (c *checker) executorRef(framework, executor string) api.ExecutorRef {
	return api.ExecutorRef{
		Framework: api.FrameworkID(c.id("framework ID", framework)),
		Executor:  api.ExecutorID(c.id("executor ID", executor)),
	}
}
