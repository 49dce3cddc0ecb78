package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// entryBytesMax bounds one entry of the log (R17). A single command is far smaller;
// what does not fit goes into the next entry.
const entryBytesMax = 4 << 20

// commandBytesMax bounds one command: the largest value of a store and its frame.
const commandBytesMax = registry.StoreValueBytesMax + 64<<10

// encodeCommand makes the message of a command, and its size in an entry.
func encodeCommand(command registry.Command) (*logpb.Command, int, error) {
	m := &logpb.Command{Client: command.Client, Counter: command.Counter, At: timeToLog(command.At)}
	if err := encodeChange(m, command.Change); err != nil {
		return nil, 0, api.E("raft.propose", api.Invalid, command.Client, err)
	}
	size := proto.Size(m)
	if size > commandBytesMax {
		return nil, 0, api.E("raft.propose", api.Limit, command.Client, fmt.Errorf("the command has %d bytes, at most %d are allowed", size, commandBytesMax))
	}
	// Not every string is text that protobuf takes.
	if _, err := proto.Marshal(m); err != nil {
		return nil, 0, api.E("raft.propose", api.Invalid, command.Client, err)
	}
	return m, size + 8, nil
}

// encodeEntry writes the entry, with a checksum if all masters know that one.
func encodeEntry(commands []*logpb.Command, known uint64) ([]byte, error) {
	format := uint32(1)
	if known >= registry.FormatBounded {
		format = registry.FormatBounded
	}
	for _, command := range commands {
		format = max(format, formatOf(command))
	}
	data, err := proto.Marshal(&logpb.Entry{Format: format, Commands: commands})
	if err != nil || format < registry.FormatBounded {
		return data, err
	}
	return appendSum(data), nil
}

// entrySumField is logpb.Entry.sum, which is the last field of an entry.
const (
	entrySumField = 3
	entrySumBytes = 5
)

func appendSum(data []byte) []byte {
	sum := crc32.Checksum(data, castagnoli)
	return protowire.AppendFixed32(protowire.AppendTag(data, entrySumField, protowire.Fixed32Type), sum)
}

// checkSum compares an entry with its checksum. Entries of older formats have none.
func checkSum(data []byte, format uint32) error {
	if format < registry.FormatBounded {
		return nil
	}
	body := data[:max(len(data)-entrySumBytes, 0)]
	if !bytes.Equal(appendSum(bytes.Clone(body)), data) {
		return errors.New("it is damaged: its checksum is wrong")
	}
	return nil
}

// formatOf is the oldest format in which a command can be written. Whoever proposes one
// that needs a newer format has made sure that all masters read it.
func formatOf(m *logpb.Command) uint32 {
	switch c := m.Change.(type) {
	case *logpb.Command_RaiseFormat:
		return c.RaiseFormat.Format
	case *logpb.Command_CheckHash:
		return registry.FormatBounded
	case *logpb.Command_SetMaintenance, *logpb.Command_BeginMaintenance:
		return registry.FormatMaintenance
	case *logpb.Command_SetReserved:
		if len(c.SetReserved.Done) > 0 {
			return registry.FormatOperations
		}
	case *logpb.Command_PutEntry:
		if c.PutEntry.AllBytesMax != 0 {
			return registry.FormatMaintenance
		}
	}
	return 1
}

// checkFormat refuses what this version can't read.
func checkFormat(what string, format uint32) error {
	if format == 0 || format > registry.Format {
		return fmt.Errorf("%s has format %d and this version reads formats 1 to %d; start the version that wrote it, or a newer one",
			what, format, registry.Format)
	}
	return nil
}

// checkEntry reports why this version can't read an entry. It looks at no more than the
// entry's own fields: a start goes over the whole log. A change that this version does
// not know stands in an entry of a newer format.
func checkEntry(data []byte) error {
	format, err := entryFormat(data)
	if err != nil {
		return err
	}
	for rest := data; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return fmt.Errorf("it is damaged: %w", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if size < 0 {
			return fmt.Errorf("it is damaged: %w", protowire.ParseError(size))
		}
		rest = rest[n+size:]
	}
	return checkSum(data, format)
}

// entryFormat reads logpb.Entry.format, with which every entry begins: behind it, a length
// that is wrong could make bytes of a command look like another one.
func entryFormat(data []byte) (uint32, error) {
	number, kind, n := protowire.ConsumeTag(data)
	if n < 0 || number != entryFormatField || kind != protowire.VarintType {
		return 0, errors.New("it is damaged: it does not begin with its format")
	}
	format, size := protowire.ConsumeVarint(data[n:])
	if size < 0 {
		return 0, fmt.Errorf("it is damaged: %w", protowire.ParseError(size))
	}
	short := uint32(min(format, math.MaxUint32))
	return short, checkFormat("it", short)
}

// entryFormatField is logpb.Entry.format.
const entryFormatField = 1

func readEntry(data []byte) (*logpb.Entry, error) {
	format, err := entryFormat(data)
	if err == nil {
		err = checkSum(data, format)
	}
	if err != nil {
		return nil, err
	}
	entry := &logpb.Entry{}
	if err := proto.Unmarshal(data, entry); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	return entry, nil
}

// decodeEntry reads the commands of an entry.
func decodeEntry(data []byte) ([]registry.Command, error) {
	entry, err := readEntry(data)
	if err != nil {
		return nil, err
	}
	commands := make([]registry.Command, len(entry.Commands))
	for i, m := range entry.Commands {
		change, err := decodeChange(m)
		if err != nil {
			return nil, err
		}
		commands[i] = registry.Command{Client: m.Client, Counter: m.Counter, At: timeFromLog(m.At), Change: change}
	}
	return commands, nil
}

func encodeChange(m *logpb.Command, change registry.Change) error {
	switch c := change.(type) {
	case registry.Bootstrap:
		m.Change = &logpb.Command_Bootstrap{Bootstrap: &logpb.Bootstrap{ClusterId: string(c.Cluster)}}
	case registry.RaiseEpoch:
		m.Change = &logpb.Command_RaiseEpoch{RaiseEpoch: &logpb.RaiseEpoch{Epoch: c.Epoch}}
	case registry.RaiseFormat:
		m.Change = &logpb.Command_RaiseFormat{RaiseFormat: &logpb.RaiseFormat{Format: uint32(c.Format)}}
	case registry.SetMaster:
		m.Change = &logpb.Command_SetMaster{SetMaster: &logpb.SetMaster{Id: string(c.ID), Master: masterToLog(c.Master)}}
	case registry.RemoveMaster:
		m.Change = &logpb.Command_RemoveMaster{RemoveMaster: &logpb.RemoveMaster{Id: string(c.ID)}}
	case registry.SetRole:
		m.Change = &logpb.Command_SetRole{SetRole: &logpb.SetRole{Role: string(c.Role), Set: roleToLog(c.Set)}}
	case registry.CheckHash:
		m.Change = &logpb.Command_CheckHash{CheckHash: &logpb.CheckHash{Index: c.Index, Hash: c.Hash}}
	case registry.Expire:
		m.Change = &logpb.Command_Expire{Expire: &logpb.Expire{Before: timeToLog(c.Before)}}
	default:
		if encodeAgentChange(m, change) || encodeFrameworkChange(m, change) {
			return nil
		}
		return fmt.Errorf("a change of type %T can't be written", change)
	}
	return nil
}

func encodeAgentChange(m *logpb.Command, change registry.Change) bool {
	switch c := change.(type) {
	case registry.AdmitAgent:
		m.Change = &logpb.Command_AdmitAgent{AdmitAgent: &logpb.AdmitAgent{
			Agent: agentToLog(c.Agent), Nonce: string(c.Nonce), BootId: c.BootID,
		}}
	case registry.UpdateAgent:
		m.Change = &logpb.Command_UpdateAgent{UpdateAgent: &logpb.UpdateAgent{Agent: agentToLog(c.Agent), BootId: c.BootID}}
	case registry.MarkAgent:
		m.Change = &logpb.Command_MarkAgent{MarkAgent: &logpb.MarkAgent{
			Id: string(c.ID), Set: uint32(c.Set), Clear: uint32(c.Clear), Grace: durationToLog(c.Grace), Why: c.Why,
		}}
	case registry.SetMaintenance:
		m.Change = &logpb.Command_SetMaintenance{SetMaintenance: &logpb.SetMaintenance{
			AgentIds: texts(c.Agents), Window: windowToLog(c.Window), Saw: windowToLog(c.Saw),
		}}
	case registry.BeginMaintenance:
		m.Change = &logpb.Command_BeginMaintenance{BeginMaintenance: &logpb.BeginMaintenance{
			AgentId: string(c.ID), Window: windowToLog(c.Window),
		}}
	case registry.RemoveAgent:
		m.Change = &logpb.Command_RemoveAgent{RemoveAgent: &logpb.RemoveAgent{Id: string(c.ID)}}
	case registry.SetReserved:
		m.Change = &logpb.Command_SetReserved{SetReserved: &logpb.SetReserved{
			Id: string(c.ID), Saw: wire.ResourcesToProto(c.Saw), Reserved: wire.ResourcesToProto(c.Reserved),
			FrameworkId: string(c.Framework), Done: texts(c.Done),
		}}
	default:
		return false
	}
	return true
}

func encodeFrameworkChange(m *logpb.Command, change registry.Change) bool {
	switch c := change.(type) {
	case registry.Subscribe:
		m.Change = &logpb.Command_Subscribe{Subscribe: &logpb.Subscribe{
			Framework: frameworkToLog(c.Framework), Instance: string(c.Instance),
		}}
	case registry.Readmit:
		m.Change = &logpb.Command_Readmit{Readmit: &logpb.Readmit{Framework: frameworkToLog(c.Framework)}}
	case registry.UpdateFramework:
		m.Change = &logpb.Command_UpdateFramework{UpdateFramework: &logpb.UpdateFramework{
			Framework: frameworkToLog(c.Framework), Session: c.Session,
		}}
	case registry.RemoveFramework:
		m.Change = &logpb.Command_RemoveFramework{RemoveFramework: &logpb.RemoveFramework{
			Id: string(c.ID), Session: c.Session, Why: c.Why,
		}}
	case registry.PutEntry:
		m.Change = &logpb.Command_PutEntry{PutEntry: &logpb.PutEntry{
			FrameworkId: string(c.Framework), Session: c.Session, Key: c.Key, Value: c.Value, IfVersion: c.IfVersion,
			AllBytesMax: c.AllMax,
		}}
	case registry.DeleteEntry:
		m.Change = &logpb.Command_DeleteEntry{DeleteEntry: &logpb.DeleteEntry{
			FrameworkId: string(c.Framework), Session: c.Session, Key: c.Key, IfVersion: c.IfVersion,
		}}
	default:
		return false
	}
	return true
}

func decodeChange(m *logpb.Command) (registry.Change, error) {
	switch c := m.Change.(type) {
	case *logpb.Command_Bootstrap:
		return registry.Bootstrap{Cluster: api.ClusterID(c.Bootstrap.ClusterId)}, nil
	case *logpb.Command_RaiseEpoch:
		return registry.RaiseEpoch{Epoch: c.RaiseEpoch.Epoch}, nil
	case *logpb.Command_RaiseFormat:
		return registry.RaiseFormat{Format: uint64(c.RaiseFormat.Format)}, nil
	case *logpb.Command_SetMaster:
		return registry.SetMaster{ID: api.MasterID(c.SetMaster.Id), Master: masterFromLog(c.SetMaster.Master)}, nil
	case *logpb.Command_RemoveMaster:
		return registry.RemoveMaster{ID: api.MasterID(c.RemoveMaster.Id)}, nil
	case *logpb.Command_SetRole:
		return registry.SetRole{Role: api.Role(c.SetRole.Role), Set: roleFromLog(c.SetRole.Set)}, nil
	case *logpb.Command_CheckHash:
		return registry.CheckHash{Index: c.CheckHash.Index, Hash: c.CheckHash.Hash}, nil
	case *logpb.Command_Expire:
		return registry.Expire{Before: timeFromLog(c.Expire.Before)}, nil
	}
	if change := decodeAgentChange(m); change != nil {
		return change, nil
	}
	if change := decodeFrameworkChange(m); change != nil {
		return change, nil
	}
	return nil, errors.New("it holds a change that this version does not know")
}

func decodeAgentChange(m *logpb.Command) registry.Change {
	switch c := m.Change.(type) {
	case *logpb.Command_AdmitAgent:
		return registry.AdmitAgent{
			Agent: agentFromLog(c.AdmitAgent.Agent), Nonce: api.Nonce(c.AdmitAgent.Nonce), BootID: c.AdmitAgent.BootId,
		}
	case *logpb.Command_UpdateAgent:
		return registry.UpdateAgent{Agent: agentFromLog(c.UpdateAgent.Agent), BootID: c.UpdateAgent.BootId}
	case *logpb.Command_MarkAgent:
		return registry.MarkAgent{
			ID: api.AgentID(c.MarkAgent.Id), Set: api.Mark(c.MarkAgent.Set), Clear: api.Mark(c.MarkAgent.Clear),
			Grace: c.MarkAgent.Grace.AsDuration(), Why: c.MarkAgent.Why,
		}
	case *logpb.Command_SetMaintenance:
		return registry.SetMaintenance{
			Agents: agentIDs(c.SetMaintenance.AgentIds), Window: windowFromLog(c.SetMaintenance.Window), Saw: windowFromLog(c.SetMaintenance.Saw),
		}
	case *logpb.Command_BeginMaintenance:
		return registry.BeginMaintenance{ID: api.AgentID(c.BeginMaintenance.AgentId), Window: windowFromLog(c.BeginMaintenance.Window)}
	case *logpb.Command_RemoveAgent:
		return registry.RemoveAgent{ID: api.AgentID(c.RemoveAgent.Id)}
	case *logpb.Command_SetReserved:
		return registry.SetReserved{
			ID: api.AgentID(c.SetReserved.Id), Saw: wire.ResourcesOf(c.SetReserved.Saw),
			Reserved:  wire.ResourcesOf(c.SetReserved.Reserved),
			Framework: api.FrameworkID(c.SetReserved.FrameworkId), Done: operationIDs(c.SetReserved.Done),
		}
	}
	return nil
}

func decodeFrameworkChange(m *logpb.Command) registry.Change {
	switch c := m.Change.(type) {
	case *logpb.Command_Subscribe:
		return registry.Subscribe{Framework: frameworkFromLog(c.Subscribe.Framework), Instance: api.Nonce(c.Subscribe.Instance)}
	case *logpb.Command_Readmit:
		return registry.Readmit{Framework: frameworkFromLog(c.Readmit.Framework)}
	case *logpb.Command_UpdateFramework:
		return registry.UpdateFramework{
			Framework: frameworkFromLog(c.UpdateFramework.Framework), Session: c.UpdateFramework.Session,
		}
	case *logpb.Command_RemoveFramework:
		return registry.RemoveFramework{
			ID: api.FrameworkID(c.RemoveFramework.Id), Session: c.RemoveFramework.Session, Why: c.RemoveFramework.Why,
		}
	case *logpb.Command_PutEntry:
		return registry.PutEntry{
			Framework: api.FrameworkID(c.PutEntry.FrameworkId), Session: c.PutEntry.Session,
			Key: c.PutEntry.Key, Value: c.PutEntry.Value, IfVersion: c.PutEntry.IfVersion, AllMax: c.PutEntry.AllBytesMax,
		}
	case *logpb.Command_DeleteEntry:
		return registry.DeleteEntry{
			Framework: api.FrameworkID(c.DeleteEntry.FrameworkId), Session: c.DeleteEntry.Session,
			Key: c.DeleteEntry.Key, IfVersion: c.DeleteEntry.IfVersion,
		}
	}
	return nil
}
