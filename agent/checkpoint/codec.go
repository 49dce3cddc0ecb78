package checkpoint

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// identity is the content of the identity file: the records that survive a crash of the machine.
type identity struct {
	generation uint64
	core.Identity
	volumes  map[api.VolumeID]protocol.Volume
	logBegun bool // a log of this generation has been created
}

// take applies a record that belongs in this file. It reports false for any other record.
func (i *identity) take(record core.Record) (mine bool) {
	switch r := record.(type) {
	case core.Identity:
		i.Identity = r
	case core.VolumeKept:
		i.volumes[r.Volume.Volume] = r.Volume
	case core.VolumeForgotten:
		delete(i.volumes, r.Volume)
	default:
		return false
	}
	return true
}

// belongs says whether a record belongs in the identity file.
func belongs(record core.Record) bool {
	switch record.(type) {
	case core.Identity, core.VolumeKept, core.VolumeForgotten:
		return true
	default:
		return false
	}
}

func (i identity) clone() identity {
	i.volumes = maps.Clone(i.volumes)
	return i
}

// records returns the content as records.
func (i *identity) records() []core.Record {
	records := []core.Record{i.Identity}
	for _, id := range slices.Sorted(maps.Keys(i.volumes)) {
		records = append(records, core.VolumeKept{Volume: i.volumes[id]})
	}
	return records
}

func encodeIdentity(i identity) ([]byte, error) {
	m := &logpb.AgentIdentity{
		Generation: i.generation, Nonce: string(i.Nonce), ClusterId: string(i.Cluster), AgentId: string(i.Agent),
		Term: wire.TermToProto(i.Term), BootId: i.BootID, Rebooted: i.Rebooted, Draining: i.Draining,
		DrainGrace: durationpb.New(i.DrainGrace), Gone: i.Gone, LogBegun: i.logBegun,
	}
	for _, id := range slices.Sorted(maps.Keys(i.volumes)) {
		m.Volumes = append(m.Volumes, wire.VolumeToProto(i.volumes[id]))
	}
	return proto.Marshal(m)
}

func decodeIdentity(payload []byte) (identity, error) {
	var m logpb.AgentIdentity
	if err := proto.Unmarshal(payload, &m); err != nil {
		return identity{}, err
	}
	i := identity{
		generation: m.Generation,
		Identity: core.Identity{
			Nonce: api.Nonce(m.Nonce), Cluster: api.ClusterID(m.ClusterId), Agent: api.AgentID(m.AgentId), Term: wire.TermFromProto(m.Term),
			BootID: m.BootId, Rebooted: m.Rebooted, Draining: m.Draining, DrainGrace: m.DrainGrace.AsDuration(), Gone: m.Gone,
		},
		volumes:  map[api.VolumeID]protocol.Volume{},
		logBegun: m.LogBegun,
	}
	for _, m := range m.Volumes {
		volume := wire.VolumeOf(m)
		i.volumes[volume.Volume] = volume
	}
	return i, nil
}

// Reread returns the records as a disk would give them back: encoded and decoded, what belongs in the identity file
// first. So a store without a disk forgets what a disk forgets, such as the monotonic part of times.
func Reread(records []core.Record) ([]core.Record, error) {
	kept := identity{volumes: map[api.VolumeID]protocol.Volume{}}
	var read []core.Record
	for _, record := range records {
		if kept.take(record) {
			continue
		}
		data, err := encode(nil, record)
		if err != nil {
			return nil, err
		}
		again, err := decode(data)
		if err != nil {
			return nil, err
		}
		read = append(read, again.(core.Record))
	}
	if kept.Identity == (core.Identity{}) {
		return nil, nil
	}
	data, err := encodeIdentity(kept)
	if err != nil {
		return nil, err
	}
	if kept, err = decodeIdentity(data); err != nil {
		return nil, err
	}
	return append(kept.records(), read...), nil
}

// encode appends the bytes of a record, or of the mark of a group, to buffer.
func encode(buffer []byte, record any) ([]byte, error) {
	m := new(logpb.AgentRecord)
	switch r := record.(type) {
	case core.FrameworkKept:
		m.Record = &logpb.AgentRecord_FrameworkKept{FrameworkKept: wire.FrameworkToProto(r.Framework)}
	case core.FrameworkRemoved:
		m.Record = &logpb.AgentRecord_FrameworkRemoved{FrameworkRemoved: string(r.Framework)}
	case core.FrameworkForgotten:
		m.Record = &logpb.AgentRecord_FrameworkForgotten{FrameworkForgotten: string(r.Framework)}
	case core.ExecutorStarting:
		m.Record = &logpb.AgentRecord_ExecutorStarting{ExecutorStarting: &logpb.ExecutorStarting{
			Run: runToProto(r.Run), Executor: wire.ExecutorToProto(&r.Executor), Role: string(r.Role),
			Resources: wire.ResourcesToProto(r.Resources), Builtin: r.Builtin,
			LaunchTerm: wire.TermToProto(r.LaunchTerm), LaunchNumber: r.LaunchNumber, Receipt: []byte(r.Receipt),
		}}
	case core.ExecutorStarted:
		m.Record = &logpb.AgentRecord_ExecutorStarted{ExecutorStarted: &logpb.ExecutorStarted{
			Run: runToProto(r.Run), Process: processToProto(r.Process), TokenHash: r.TokenHash,
		}}
	case core.ExecutorStopping:
		m.Record = &logpb.AgentRecord_ExecutorStopping{ExecutorStopping: &logpb.ExecutorStopping{
			Run: runToProto(r.Run), Kill: r.Kill, Reason: apiv1.Reason(r.Reason), Why: r.Why,
		}}
	case core.ExecutorForgotten:
		m.Record = &logpb.AgentRecord_ExecutorForgotten{ExecutorForgotten: runToProto(r.Run)}
	case core.StubKept:
		m.Record = &logpb.AgentRecord_StubKept{StubKept: wire.TaskStubToProto(r.Stub)}
	case recordGroup:
		m.Record = &logpb.AgentRecord_Group{Group: &logpb.RecordGroup{Records: uint32(r)}}
	case core.StubForgotten:
		m.Record = &logpb.AgentRecord_StubForgotten{StubForgotten: refToProto(r.Task)}
	default:
		if err := encodeTask(m, record); err != nil {
			return buffer, err
		}
	}
	return proto.MarshalOptions{}.MarshalAppend(buffer, m)
}

func encodeTask(m *logpb.AgentRecord, record any) error {
	switch r := record.(type) {
	case core.TaskLaunched:
		m.Record = &logpb.AgentRecord_TaskLaunched{TaskLaunched: &logpb.TaskLaunched{
			Task: wire.TaskToProto(r.Task), FrameworkId: string(r.Framework), Role: string(r.Role),
			Resources: wire.ResourcesToProto(r.Resources), ExecutorResources: wire.ResourcesToProto(r.ExecutorResources),
			Term: wire.TermToProto(r.Term), Number: r.Number, Receipt: []byte(r.Receipt), At: wire.TimeToProto(r.At), Began: wire.TimeToProto(r.Began),
			ExecutorReceipt: []byte(r.ExecutorReceipt), Group: string(r.Group), GroupFirst: string(r.GroupFirst), Gpus: r.GPUs,
		}}
	case core.TaskKilled:
		m.Record = &logpb.AgentRecord_TaskKilled{TaskKilled: &logpb.TaskKilled{
			Task: refToProto(r.Task), Grace: durationpb.New(r.Grace), Reason: apiv1.Reason(r.Reason), Why: r.Why,
		}}
	case core.TaskGroup:
		m.Record = &logpb.AgentRecord_TaskGroup{TaskGroup: &logpb.TaskGroup{Task: refToProto(r.Task), Group: processToProto(r.Group)}}
	case core.TaskStatus:
		m.Record = &logpb.AgentRecord_TaskStatus{TaskStatus: &logpb.TaskStatus{
			Status: wire.StatusToProto(r.Status), ExecutorNumber: r.ExecutorNumber, Group: processToProto(r.Group), Progress: r.Progress,
		}}
	case core.TaskAcknowledged:
		m.Record = &logpb.AgentRecord_TaskAcknowledged{TaskAcknowledged: &logpb.TaskAcknowledged{Task: refToProto(r.Task), Number: r.Number}}
	default:
		return fmt.Errorf("record %T has no form on disk", record)
	}
	return nil
}

// decode reads what encode has written. A record of a kind that this version does not know is an error, because
// skipping it could forget a task.
func decode(payload []byte) (any, error) {
	m := new(logpb.AgentRecord)
	if err := proto.Unmarshal(payload, m); err != nil {
		return nil, err
	}
	switch r := m.Record.(type) {
	case *logpb.AgentRecord_FrameworkKept:
		return core.FrameworkKept{Framework: wire.FrameworkOf(r.FrameworkKept)}, nil
	case *logpb.AgentRecord_FrameworkRemoved:
		return core.FrameworkRemoved{Framework: api.FrameworkID(r.FrameworkRemoved)}, nil
	case *logpb.AgentRecord_FrameworkForgotten:
		return core.FrameworkForgotten{Framework: api.FrameworkID(r.FrameworkForgotten)}, nil
	case *logpb.AgentRecord_ExecutorStarting:
		return startingFromProto(r.ExecutorStarting), nil
	case *logpb.AgentRecord_ExecutorStarted:
		s := r.ExecutorStarted
		return core.ExecutorStarted{Run: runFromProto(s.GetRun()), Process: processFromProto(s.GetProcess()), TokenHash: s.GetTokenHash()}, nil
	case *logpb.AgentRecord_ExecutorStopping:
		s := r.ExecutorStopping
		return core.ExecutorStopping{Run: runFromProto(s.GetRun()), Kill: s.GetKill(), Reason: api.Reason(s.GetReason()), Why: s.GetWhy()}, nil
	case *logpb.AgentRecord_ExecutorForgotten:
		return core.ExecutorForgotten{Run: runFromProto(r.ExecutorForgotten)}, nil
	case *logpb.AgentRecord_StubKept:
		return core.StubKept{Stub: wire.TaskStubOf(r.StubKept)}, nil
	case *logpb.AgentRecord_Group:
		return recordGroup(r.Group.GetRecords()), nil
	case *logpb.AgentRecord_StubForgotten:
		return core.StubForgotten{Task: refFromProto(r.StubForgotten)}, nil
	}
	return decodeTask(m)
}

func decodeTask(m *logpb.AgentRecord) (core.Record, error) {
	switch r := m.Record.(type) {
	case *logpb.AgentRecord_TaskLaunched:
		l := r.TaskLaunched
		return core.TaskLaunched{
			Task: wire.TaskFromProto(l.GetTask()), Framework: api.FrameworkID(l.GetFrameworkId()), Role: api.Role(l.GetRole()),
			Resources: wire.ResourcesOf(l.GetResources()), ExecutorResources: wire.ResourcesOf(l.GetExecutorResources()),
			Term: wire.TermFromProto(l.GetTerm()), Number: l.GetNumber(), Receipt: string(l.GetReceipt()), ExecutorReceipt: string(l.GetExecutorReceipt()), At: wire.TimeOf(l.GetAt()),
			Began: wire.TimeOf(l.GetBegan()), Group: api.TaskGroupID(l.GetGroup()), GroupFirst: api.TaskID(l.GetGroupFirst()), GPUs: l.GetGpus(),
		}, nil
	case *logpb.AgentRecord_TaskKilled:
		k := r.TaskKilled
		return core.TaskKilled{
			Task: refFromProto(k.GetTask()), Grace: k.GetGrace().AsDuration(), Reason: api.Reason(k.GetReason()), Why: k.GetWhy(),
		}, nil
	case *logpb.AgentRecord_TaskGroup:
		return core.TaskGroup{Task: refFromProto(r.TaskGroup.GetTask()), Group: processFromProto(r.TaskGroup.GetGroup())}, nil
	case *logpb.AgentRecord_TaskStatus:
		status, err := wire.StatusFromProto(r.TaskStatus.GetStatus())
		return core.TaskStatus{
			Status: status, ExecutorNumber: r.TaskStatus.GetExecutorNumber(), Group: processFromProto(r.TaskStatus.GetGroup()),
			Progress: r.TaskStatus.GetProgress(),
		}, err
	case *logpb.AgentRecord_TaskAcknowledged:
		return core.TaskAcknowledged{Task: refFromProto(r.TaskAcknowledged.GetTask()), Number: r.TaskAcknowledged.GetNumber()}, nil
	}
	return nil, errNewer // its checksum is right, so a newer version wrote it
}

func startingFromProto(m *logpb.ExecutorStarting) core.ExecutorStarting {
	starting := core.ExecutorStarting{
		Run: runFromProto(m.GetRun()), Role: api.Role(m.GetRole()), Resources: wire.ResourcesOf(m.GetResources()), Builtin: m.GetBuiltin(),
		LaunchTerm: wire.TermFromProto(m.GetLaunchTerm()), LaunchNumber: m.GetLaunchNumber(), Receipt: string(m.GetReceipt()),
	}
	if executor := wire.ExecutorFromProto(m.GetExecutor()); executor != nil {
		starting.Executor = *executor
	}
	return starting
}

func refToProto(ref api.TaskRef) *logpb.TaskRef {
	return &logpb.TaskRef{FrameworkId: string(ref.Framework), TaskId: string(ref.Task)}
}

func refFromProto(m *logpb.TaskRef) api.TaskRef {
	return api.TaskRef{Framework: api.FrameworkID(m.GetFrameworkId()), Task: api.TaskID(m.GetTaskId())}
}

func runToProto(run core.Run) *logpb.ExecutorRun {
	return &logpb.ExecutorRun{FrameworkId: string(run.Executor.Framework), ExecutorId: string(run.Executor.Executor), Number: run.Number}
}

func runFromProto(m *logpb.ExecutorRun) core.Run {
	return core.Run{
		Executor: api.ExecutorRef{Framework: api.FrameworkID(m.GetFrameworkId()), Executor: api.ExecutorID(m.GetExecutorId())},
		Number:   m.GetNumber(),
	}
}

// processToProto returns nil for a process that is not set: most tasks have only one status with a group.
func processToProto(p core.Process) *logpb.Process {
	if p == (core.Process{}) {
		return nil
	}
	return &logpb.Process{Pid: int32(p.PID), Start: p.Start}
}

func processFromProto(m *logpb.Process) core.Process {
	return core.Process{PID: int(m.GetPid()), Start: m.GetStart()}
}
