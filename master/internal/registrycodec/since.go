package registrycodec

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/master/registry"
)

// since says which format has brought a change, or a field, of what is on disk. Those that are
// not named have been there since format 1.
//
// While not all masters know a format, the registry must not come to hold what it brings: a
// field is left out of the log, and of the hash by which masters compare their registries; a
// change may not be proposed.
var since = map[protoreflect.FullName]uint64{
	"tender.log.v1.Command.raise_format":         registry.FormatMaintenance,
	"tender.log.v1.Command.set_maintenance":      registry.FormatMaintenance,
	"tender.log.v1.Command.begin_maintenance":    registry.FormatMaintenance,
	"tender.log.v1.PutEntry.all_bytes_max":       registry.FormatMaintenance,
	"tender.log.v1.AgentItem.maintenance":        registry.FormatMaintenance,
	"tender.log.v1.AgentItem.maintained":         registry.FormatMaintenance,
	"tender.log.v1.SetReserved.framework_id":     registry.FormatOperations,
	"tender.log.v1.SetReserved.done":             registry.FormatOperations,
	"tender.log.v1.FrameworkItem.operations":     registry.FormatOperations,
	"tender.log.v1.Command.check_hash":           registry.FormatBounded,
	"tender.log.v1.AgentItem.gone":               registry.FormatBounded,
	"tender.log.v1.SnapshotHead.lost_agents":     registry.FormatBounded,
	"tender.log.v1.SnapshotHead.lost_frameworks": registry.FormatBounded,
	"tender.log.v1.SnapshotHead.meta_sum":        registry.FormatHashed, // and in older ones overlooked: it is no content of the registry
}

func sinceFormat(field protoreflect.FieldDescriptor) uint64 {
	return max(since[field.FullName()], 1)
}

var changeOneof = new(logpb.Command).ProtoReflect().Descriptor().Oneofs().ByName("change")

// formatOf is the oldest format that has a command's change. Whoever proposes one that needs a
// newer format than the registry's has made sure that all masters read it.
func formatOf(m *logpb.Command) uint64 {
	if raise := m.GetRaiseFormat(); raise != nil {
		return uint64(raise.Format)
	}
	if change := m.ProtoReflect().WhichOneof(changeOneof); change != nil {
		return sinceFormat(change)
	}
	return 1
}

// leaveOutNewer clears the fields of a change, and of all that is in it, that a format can't say.
func leaveOutNewer(m protoreflect.Message, format uint64) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case sinceFormat(field) > format && field.ContainingOneof() != changeOneof:
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
