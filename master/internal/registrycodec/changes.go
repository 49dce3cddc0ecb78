package registrycodec

import (
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// since names the format that introduced a change or a field of what is on disk. Those that are not named have existed
// since format 1, which is that of the first release; so there is nothing in it yet.
//
// While not all masters know a format, the registry must not hold what the format introduces. So such a field is left
// out of the log, and of the hash by which masters compare their registries, and such a change may not be proposed.
var since = map[protoreflect.FullName]uint64{}

func sinceFormat(field protoreflect.FieldDescriptor) uint64 {
	return max(since[field.FullName()], 1)
}

// changeOneof is found when it is first needed, because that reads the descriptions of all messages of the log.
var changeOneof = sync.OnceValue(func() protoreflect.OneofDescriptor {
	return new(logpb.Command).ProtoReflect().Descriptor().Oneofs().ByName("change")
})

// formatOf returns the oldest format that has the command's change. Whoever proposes a change that needs a newer format
// than the registry's has made sure that all masters can read it.
func formatOf(m *logpb.Command) uint64 {
	if raise := m.GetRaiseFormat(); raise != nil {
		return uint64(raise.Format)
	}
	if change := m.ProtoReflect().WhichOneof(changeOneof()); change != nil {
		return sinceFormat(change)
	}
	return 1
}

// leaveOutNewer clears the fields of a message, and of all messages in it, that a format does not have.
func leaveOutNewer(m protoreflect.Message, format uint64) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case sinceFormat(field) > format && field.ContainingOneof() != changeOneof():
			m.Clear(field)
		case field.IsMap() || field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				leaveOutNewer(value.List().Get(i).Message(), format)
			}
		default:
			leaveOutNewer(value.Message(), format)
		}
		return true
	})
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
		m.Change = &logpb.Command_SetRole{SetRole: &logpb.SetRole{Role: string(c.Role), Set: roleToLog(c.Set), Saw: roleToLog(c.Saw), SawQuotas: c.SawQuotas}}
	case registry.CheckHash:
		m.Change = &logpb.Command_CheckHash{CheckHash: &logpb.CheckHash{Index: c.Index, Hash: c.Hash}}
	case registry.Expire:
		m.Change = &logpb.Command_Expire{Expire: &logpb.Expire{Before: wire.TimeToProto(c.Before)}}
	case registry.RecordUsage:
		m.Change = &logpb.Command_RecordUsage{RecordUsage: recordUsageToLog(c)}
	default:
		if encodeAgentChange(m, change) || encodeFrameworkChange(m, change) || encodeTrustChange(m, change) || encodeTokenChange(m, change) {
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
			Agent: wire.AgentToProto(c.Agent), Nonce: string(c.Nonce), BootId: c.BootID,
		}}
	case registry.UpdateAgent:
		m.Change = &logpb.Command_UpdateAgent{UpdateAgent: &logpb.UpdateAgent{Agent: wire.AgentToProto(c.Agent), BootId: c.BootID}}
	case registry.MarkAgent:
		m.Change = &logpb.Command_MarkAgent{MarkAgent: &logpb.MarkAgent{
			Id: string(c.ID), Set: uint32(c.Set), Clear: uint32(c.Clear), Grace: wire.DurationToProto(c.Grace), Why: c.Why, Saw: c.Saw,
		}}
	case registry.SetMaintenance:
		m.Change = &logpb.Command_SetMaintenance{SetMaintenance: &logpb.SetMaintenance{
			AgentIds: wire.Texts(c.Agents), Window: wire.WindowToProto(c.Window), Saw: c.Saw,
		}}
	case registry.BeginMaintenance:
		m.Change = &logpb.Command_BeginMaintenance{BeginMaintenance: &logpb.BeginMaintenance{AgentId: string(c.ID), Saw: c.Saw}}
	case registry.RemoveAgent:
		m.Change = &logpb.Command_RemoveAgent{RemoveAgent: &logpb.RemoveAgent{Id: string(c.ID), Nonce: string(c.Nonce), Saw: c.Saw}}
	case registry.KeepKill:
		m.Change = &logpb.Command_KeepKill{KeepKill: &logpb.KeepKill{Id: string(c.ID), Kill: killToLog(registry.Kill{Task: c.Task, Grace: c.Grace})}}
	case registry.ForgetKills:
		m.Change = &logpb.Command_ForgetKills{ForgetKills: &logpb.ForgetKills{Id: string(c.ID), Tasks: wire.Each(c.Tasks, killedToLog)}}
	case registry.DestroyOrphan:
		m.Change = &logpb.Command_DestroyOrphan{DestroyOrphan: &logpb.DestroyOrphan{
			Id: string(c.ID), Volume: wire.ResourceToProto(c.Volume), Generation: c.Generation,
		}}
	case registry.VolumeGone:
		m.Change = &logpb.Command_VolumeGone{VolumeGone: &logpb.VolumeGone{Id: string(c.ID), Volume: string(c.Volume), Generation: c.Generation}}
	case registry.SetReserved:
		m.Change = &logpb.Command_SetReserved{SetReserved: &logpb.SetReserved{
			Id: string(c.ID), Saw: wire.ResourcesToProto(c.Saw), Reserved: wire.ResourcesToProto(c.Reserved),
			FrameworkId: string(c.Framework), Done: wire.Texts(c.Done),
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
			Framework: wire.FrameworkToProto(c.Framework), Instance: string(c.Instance),
		}}
	case registry.Readmit:
		m.Change = &logpb.Command_Readmit{Readmit: &logpb.Readmit{Framework: wire.FrameworkToProto(c.Framework)}}
	case registry.UpdateFramework:
		m.Change = &logpb.Command_UpdateFramework{UpdateFramework: &logpb.UpdateFramework{
			Framework: wire.FrameworkToProto(c.Framework), Session: c.Session,
		}}
	case registry.RemoveFramework:
		m.Change = &logpb.Command_RemoveFramework{RemoveFramework: &logpb.RemoveFramework{
			Id: string(c.ID), Session: c.Session, Why: c.Why,
		}}
	case registry.PutEntry:
		m.Change = &logpb.Command_PutEntry{PutEntry: &logpb.PutEntry{
			FrameworkId: string(c.Framework), Session: c.Session, Key: c.Key, Value: c.Value, IfVersion: c.IfVersion,
			AllBytesMax: c.AllMax, KeepFreePercent: c.KeepFree,
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

func encodeTokenChange(m *logpb.Command, change registry.Change) bool {
	switch c := change.(type) {
	case registry.CreateToken:
		m.Change = &logpb.Command_CreateToken{CreateToken: &logpb.CreateToken{Token: tokenToLog(c.Token)}}
	case registry.UseToken:
		m.Change = &logpb.Command_UseToken{UseToken: &logpb.UseToken{Id: c.ID, Key: c.Key}}
	case registry.RevokeToken:
		m.Change = &logpb.Command_RevokeToken{RevokeToken: &logpb.RevokeToken{Id: c.ID}}
	case registry.RotateAuthority:
		m.Change = &logpb.Command_RotateAuthority{RotateAuthority: &logpb.RotateAuthority{
			Digest: c.Digest, Sealed: c.Sealed, FormerEnds: wire.TimeToProto(c.FormerEnds), Saw: c.Saw,
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
		return registry.SetRole{
			Role: api.Role(c.SetRole.Role), Set: roleFromLog(c.SetRole.Set), Saw: roleFromLog(c.SetRole.Saw), SawQuotas: c.SetRole.SawQuotas,
		}, nil
	case *logpb.Command_CheckHash:
		return registry.CheckHash{Index: c.CheckHash.Index, Hash: c.CheckHash.Hash}, nil
	case *logpb.Command_Expire:
		return registry.Expire{Before: wire.TimeOf(c.Expire.Before)}, nil
	case *logpb.Command_RecordUsage:
		return recordUsageFromLog(c.RecordUsage), nil
	}
	if change := decodeAgentChange(m); change != nil {
		return change, nil
	}
	if change := decodeFrameworkChange(m); change != nil {
		return change, nil
	}
	if change := decodeTrustChange(m); change != nil {
		return change, nil
	}
	if change := decodeTokenChange(m); change != nil {
		return change, nil
	}
	return nil, errors.New("it holds a change that this version does not know")
}

func decodeAgentChange(m *logpb.Command) registry.Change {
	switch c := m.Change.(type) {
	case *logpb.Command_AdmitAgent:
		return registry.AdmitAgent{
			Agent: wire.AgentOf(c.AdmitAgent.Agent), Nonce: api.Nonce(c.AdmitAgent.Nonce), BootID: c.AdmitAgent.BootId,
		}
	case *logpb.Command_UpdateAgent:
		return registry.UpdateAgent{Agent: wire.AgentOf(c.UpdateAgent.Agent), BootID: c.UpdateAgent.BootId}
	case *logpb.Command_MarkAgent:
		return registry.MarkAgent{
			ID: api.AgentID(c.MarkAgent.Id), Set: api.Mark(c.MarkAgent.Set), Clear: api.Mark(c.MarkAgent.Clear),
			Grace: c.MarkAgent.Grace.AsDuration(), Why: c.MarkAgent.Why, Saw: c.MarkAgent.Saw,
		}
	case *logpb.Command_SetMaintenance:
		return registry.SetMaintenance{
			Agents: wire.Names[api.AgentID](c.SetMaintenance.AgentIds), Window: wire.WindowOf(c.SetMaintenance.Window), Saw: c.SetMaintenance.Saw,
		}
	case *logpb.Command_BeginMaintenance:
		return registry.BeginMaintenance{ID: api.AgentID(c.BeginMaintenance.AgentId), Saw: c.BeginMaintenance.Saw}
	case *logpb.Command_RemoveAgent:
		return registry.RemoveAgent{ID: api.AgentID(c.RemoveAgent.Id), Nonce: api.Nonce(c.RemoveAgent.Nonce), Saw: c.RemoveAgent.Saw}
	case *logpb.Command_KeepKill:
		kill := killFromLog(c.KeepKill.Kill)
		return registry.KeepKill{ID: api.AgentID(c.KeepKill.Id), Task: kill.Task, Grace: kill.Grace}
	case *logpb.Command_ForgetKills:
		return registry.ForgetKills{ID: api.AgentID(c.ForgetKills.Id), Tasks: wire.Each(c.ForgetKills.Tasks, killedOf)}
	case *logpb.Command_DestroyOrphan:
		return registry.DestroyOrphan{
			ID: api.AgentID(c.DestroyOrphan.Id), Volume: wire.ResourceOf(c.DestroyOrphan.Volume), Generation: c.DestroyOrphan.Generation,
		}
	case *logpb.Command_VolumeGone:
		return registry.VolumeGone{ID: api.AgentID(c.VolumeGone.Id), Volume: api.VolumeID(c.VolumeGone.Volume), Generation: c.VolumeGone.Generation}
	case *logpb.Command_SetReserved:
		return registry.SetReserved{
			ID: api.AgentID(c.SetReserved.Id), Saw: wire.ResourcesOf(c.SetReserved.Saw),
			Reserved:  wire.ResourcesOf(c.SetReserved.Reserved),
			Framework: api.FrameworkID(c.SetReserved.FrameworkId), Done: wire.Names[api.OperationID](c.SetReserved.Done),
		}
	}
	return nil
}

func decodeFrameworkChange(m *logpb.Command) registry.Change {
	switch c := m.Change.(type) {
	case *logpb.Command_Subscribe:
		return registry.Subscribe{Framework: wire.FrameworkOf(c.Subscribe.Framework), Instance: api.Nonce(c.Subscribe.Instance)}
	case *logpb.Command_Readmit:
		return registry.Readmit{Framework: wire.FrameworkOf(c.Readmit.Framework)}
	case *logpb.Command_UpdateFramework:
		return registry.UpdateFramework{
			Framework: wire.FrameworkOf(c.UpdateFramework.Framework), Session: c.UpdateFramework.Session,
		}
	case *logpb.Command_RemoveFramework:
		return registry.RemoveFramework{
			ID: api.FrameworkID(c.RemoveFramework.Id), Session: c.RemoveFramework.Session, Why: c.RemoveFramework.Why,
		}
	case *logpb.Command_PutEntry:
		return registry.PutEntry{
			Framework: api.FrameworkID(c.PutEntry.FrameworkId), Session: c.PutEntry.Session,
			Key: c.PutEntry.Key, Value: c.PutEntry.Value, IfVersion: c.PutEntry.IfVersion, AllMax: c.PutEntry.AllBytesMax,
			KeepFree: c.PutEntry.KeepFreePercent,
		}
	case *logpb.Command_DeleteEntry:
		return registry.DeleteEntry{
			Framework: api.FrameworkID(c.DeleteEntry.FrameworkId), Session: c.DeleteEntry.Session,
			Key: c.DeleteEntry.Key, IfVersion: c.DeleteEntry.IfVersion,
		}
	}
	return nil
}

func decodeTokenChange(m *logpb.Command) registry.Change {
	switch c := m.Change.(type) {
	case *logpb.Command_CreateToken:
		return registry.CreateToken{Token: tokenFromLog(c.CreateToken.Token)}
	case *logpb.Command_UseToken:
		return registry.UseToken{ID: c.UseToken.Id, Key: c.UseToken.Key}
	case *logpb.Command_RevokeToken:
		return registry.RevokeToken{ID: c.RevokeToken.Id}
	case *logpb.Command_RotateAuthority:
		return registry.RotateAuthority{
			Digest: c.RotateAuthority.Digest, Sealed: c.RotateAuthority.Sealed, FormerEnds: wire.TimeOf(c.RotateAuthority.FormerEnds),
			Saw: c.RotateAuthority.Saw,
		}
	}
	return nil
}
