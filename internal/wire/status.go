package wire

import (
	"math"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// statusImageBytesMax bounds the reference of an image in a status.
const statusImageBytesMax = 1 << 10

// statusGPUsMax bounds the GPUs in a status; no agent has so many.
const statusGPUsMax = 1024

// StatusToProto makes the message of a status. A long message is cut off.
func StatusToProto(status api.Status) *apiv1.Status {
	return &apiv1.Status{
		FrameworkId:  clean(status.Framework),
		TaskId:       clean(status.Task),
		AgentId:      clean(status.Agent),
		ExecutorId:   clean(status.Executor),
		Number:       status.Number,
		Previous:     status.Previous,
		State:        apiv1.TaskState(status.State),
		Reason:       apiv1.Reason(status.Reason),
		Message:      cut(clean(status.Message), api.StatusMessageBytesMax),
		Source:       apiv1.Source(status.Source),
		At:           TimeToProto(status.At),
		Data:         status.Data,
		ExitCode:     exitToProto(status.ExitCode),
		Healthy:      status.Healthy,
		Hostname:     clean(status.Hostname),
		Region:       clean(status.Region),
		Zone:         clean(status.Zone),
		Labels:       cleanMap(status.Labels),
		Ports:        portsToProto(status.Ports),
		Output:       outputToProto(status.Output),
		Image:        cut(clean(status.Image), statusImageBytesMax),
		Gpus:         status.GPUs,
		LaunchTerm:   TermToProto(status.Launch.Term),
		LaunchNumber: status.Launch.Number,
	}
}

// StatusFromProto reads a status and checks it.
func StatusFromProto(m *apiv1.Status) (api.Status, error) {
	c := new(checker)
	status := c.status(m)
	return status, c.error("wire.status", m.GetTaskId())
}

func (c *checker) status(m *apiv1.Status) api.Status {
	if m == nil {
		c.fail("no status is there")
		return api.Status{}
	}
	if len(m.Data) > api.StatusDataBytesMax {
		c.failKind(api.Limit, "data of a status has %d bytes, at most %d are allowed", len(m.Data), api.StatusDataBytesMax)
	}
	return api.Status{
		Framework:   api.FrameworkID(c.id("framework ID", m.FrameworkId)),
		Task:        api.TaskID(c.id("task ID", m.TaskId)),
		Agent:       api.AgentID(c.optionalID("agent ID", m.AgentId)),
		Executor:    api.ExecutorID(c.optionalID("executor ID", m.ExecutorId)),
		Number:      m.Number,
		Previous:    m.Previous,
		State:       c.taskState(m.State),
		Reason:      c.reason(m.Reason),
		Message:     cut(m.Message, api.StatusMessageBytesMax),
		Source:      c.source(m.Source),
		At:          c.time("the time of a status", m.At),
		Data:        m.Data,
		ExitCode:    exitFromProto(m.ExitCode),
		Healthy:     m.Healthy,
		Output:      c.output(m.Output),
		Given:       api.Given{Image: cut(m.Image, statusImageBytesMax), GPUs: m.Gpus[:min(len(m.Gpus), statusGPUsMax)]},
		Launch:      api.LaunchID{Term: TermFromProto(m.LaunchTerm), Number: m.LaunchNumber},
		Whereabouts: api.Whereabouts{Hostname: m.Hostname, Region: m.Region, Zone: m.Zone, Labels: m.Labels, Ports: portsFromProto(m.Ports)},
	}
}

func (c *checker) source(source apiv1.Source) api.Mover {
	if !known(source, apiv1.Source_name) {
		c.fail("source %d of a status is unknown", source)
		return 0
	}
	return api.Mover(source)
}

func outputToProto(size *api.OutputSize) *apiv1.OutputSize {
	if size == nil {
		return nil
	}
	return &apiv1.OutputSize{Stdout: size.Stdout, Stderr: size.Stderr}
}

func (c *checker) output(m *apiv1.OutputSize) *api.OutputSize {
	if m == nil {
		return nil
	}
	if m.Stdout < 0 || m.Stderr < 0 {
		c.fail("an output of %d and %d bytes is impossible", m.Stdout, m.Stderr)
	}
	return &api.OutputSize{Stdout: m.Stdout, Stderr: m.Stderr}
}

func exitToProto(code *int) *int32 {
	if code == nil {
		return nil
	}
	narrow := int32(max(math.MinInt32, min(math.MaxInt32, *code)))
	return &narrow
}

func exitFromProto(code *int32) *int {
	if code == nil {
		return nil
	}
	wide := int(*code)
	return &wide
}
