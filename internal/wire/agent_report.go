package wire

import (
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

func reportToProto(report protocol.AgentReport) *apiv1.AgentReport {
	m := &apiv1.AgentReport{
		Session:  report.Session,
		Last:     report.Last,
		Rebooted: report.Rebooted,

		Tasks:     Each(report.Tasks, ReportedTaskToProto),
		Executors: Each(report.Executors, ReportedExecutorToProto),
		Stubs:     Each(report.Stubs, TaskStubToProto),
		Volumes:   Each(report.Volumes, VolumeToProto),
	}
	if report.Usage != nil {
		m.Usage = UsageReportToProto(*report.Usage)
	}
	for _, framework := range report.Frameworks {
		m.Frameworks = append(m.Frameworks, &apiv1.ReportedFramework{Framework: FrameworkToProto(framework)})
	}
	return m
}

func (c *checker) report(m *apiv1.AgentReport) protocol.AgentReport {
	report := protocol.AgentReport{
		Session:  m.GetSession(),
		Last:     m.GetLast(),
		Rebooted: m.GetRebooted(),

		Tasks:     Each(m.GetTasks(), c.reportedTask),
		Executors: Each(m.GetExecutors(), c.reportedExecutor),
		Stubs:     Each(m.GetStubs(), c.taskStub),
		Volumes:   Each(m.GetVolumes(), c.volume),
	}
	if m.GetUsage() != nil {
		usage := c.usageReport(m.GetUsage())
		report.Usage = &usage
	}
	for _, framework := range m.GetFrameworks() {
		one := c.framework(framework.GetFramework())
		c.id("framework ID", string(one.ID))
		report.Frameworks = append(report.Frameworks, one)
	}
	return report
}

// ReportedTaskToProto makes the message of a task as its agent knows it.
func ReportedTaskToProto(task protocol.ReportedTask) *apiv1.ReportedTask {
	return &apiv1.ReportedTask{
		Task:        TaskToProto(task.Task),
		FrameworkId: clean(task.Framework),
		Role:        clean(task.Role),
		Resources:   ResourcesToProto(task.Resources),
		Status:      StatusToProto(task.Status),
		Ended:       task.Ended,
		LaunchedAt:  TimeToProto(task.LaunchedAt),
		Receipt:     []byte(task.Receipt),
	}
}

// receiptBytesMax is more than a receipt of any version takes.
const receiptBytesMax = 64

func (c *checker) receipt(receipt []byte) string {
	if len(receipt) > receiptBytesMax {
		c.fail("a receipt has %d bytes, at most %d are allowed", len(receipt), receiptBytesMax)
	}
	return string(receipt)
}

func (c *checker) volume(m *apiv1.Volume) protocol.Volume {
	volume := VolumeOf(m)
	c.id("volume ID", string(volume.Volume))
	if err := volume.Check(); err != nil {
		c.fail("volume %s: %w", volume.Volume, err)
	}
	return volume
}

// reportedTask checks what the master calculates with. The rest of the task was checked when it was launched, perhaps
// by an older master with other rules.
func (c *checker) reportedTask(m *apiv1.ReportedTask) protocol.ReportedTask {
	if m.GetTask() == nil {
		c.fail("a reported task is not described")
	}
	task := protocol.ReportedTask{
		Task:       TaskFromProto(m.GetTask()),
		Framework:  api.FrameworkID(c.id("framework ID", m.GetFrameworkId())),
		Role:       c.role(m.GetRole()),
		Resources:  c.resources("resources of a task", m.GetResources()),
		Status:     c.status(m.GetStatus()),
		Ended:      m.GetEnded(),
		LaunchedAt: c.time("the launch of a task", m.GetLaunchedAt()),
		Receipt:    c.receipt(m.GetReceipt()),
	}
	c.id("task ID", string(task.Task.ID))
	c.id("executor ID", string(task.Task.ExecutorID()))
	c.bundle("resources of a task", task.Task.Resources)
	if task.Task.Executor != nil {
		c.bundle("resources of an executor", task.Task.Executor.Resources)
	}
	return task
}

// bundle checks resources that were read without a check.
func (c *checker) bundle(noun string, resources api.Resources) {
	if err := resources.Check(); err != nil {
		c.fail("%s: %w", noun, err)
	}
}

// ReportedExecutorToProto makes the message of an executor as its agent knows it.
func ReportedExecutorToProto(executor protocol.ReportedExecutor) *apiv1.ReportedExecutor {
	return &apiv1.ReportedExecutor{
		Executor:     ExecutorToProto(&executor.Executor),
		FrameworkId:  clean(executor.Framework),
		Role:         clean(executor.Role),
		Resources:    ResourcesToProto(executor.Resources),
		LaunchTerm:   TermToProto(executor.LaunchTerm),
		LaunchNumber: executor.LaunchNumber,
		Receipt:      []byte(executor.Receipt),
	}
}

func (c *checker) reportedExecutor(m *apiv1.ReportedExecutor) protocol.ReportedExecutor {
	reported := protocol.ReportedExecutor{
		Framework:    api.FrameworkID(c.id("framework ID", m.GetFrameworkId())),
		Role:         c.role(m.GetRole()),
		Resources:    c.resources("resources of an executor", m.GetResources()),
		LaunchTerm:   TermFromProto(m.GetLaunchTerm()),
		LaunchNumber: m.GetLaunchNumber(),
		Receipt:      c.receipt(m.GetReceipt()),
	}
	if executor := ExecutorFromProto(m.GetExecutor()); executor != nil {
		reported.Executor = *executor
	}
	c.id("executor ID", string(reported.Executor.ID))
	c.bundle("resources of an executor", reported.Executor.Resources)
	return reported
}

// TaskStubToProto makes the message of a stub.
func TaskStubToProto(stub protocol.TaskStub) *apiv1.TaskStub {
	return &apiv1.TaskStub{
		FrameworkId: clean(stub.Framework),
		TaskId:      clean(stub.Task),
		Name:        clean(stub.Name),
		Role:        clean(stub.Role),
		Owner:       clean(stub.Owner),
		Status:      StatusToProto(stub.Status),
		LaunchedAt:  TimeToProto(stub.LaunchedAt),
		Resources:   ResourcesToProto(stub.Resources),
		Job:         clean(stub.Job),
	}
}

// TaskStubOf reads a stub that was checked when it was written.
func TaskStubOf(m *apiv1.TaskStub) protocol.TaskStub { return trusting().taskStub(m) }

func (c *checker) taskStub(m *apiv1.TaskStub) protocol.TaskStub {
	return protocol.TaskStub{
		TaskRef:    c.taskRef(m.GetFrameworkId(), m.GetTaskId()),
		Name:       m.GetName(),
		Role:       c.role(m.GetRole()),
		Owner:      m.GetOwner(),
		Status:     c.status(m.GetStatus()),
		LaunchedAt: c.time("the launch of a task", m.GetLaunchedAt()),
		Resources:  c.resources("resources of a task that has ended", m.GetResources()),
		Job:        m.GetJob(),
	}
}
