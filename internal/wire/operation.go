package wire

import (
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// OperationToProto makes the message of an operation.
func OperationToProto(operation api.Operation) *apiv1.Operation {
	return &apiv1.Operation{
		Id:        clean(operation.ID),
		Kind:      apiv1.OperationKind(operation.Kind),
		Resources: ResourcesToProto(operation.Resources),
		Volume:    clean(operation.Volume),
		SizeMilli: int64(operation.Size),
		Tag:       clean(operation.Tag),
		Tasks:     Each(operation.Tasks, TaskToProto),
	}
}

func (c *checker) operation(m *apiv1.Operation) api.Operation {
	operation := api.Operation{
		ID:        api.OperationID(c.optionalID("operation ID", m.GetId())),
		Kind:      api.OperationKind(m.GetKind()),
		Resources: c.resources("resources of an operation", m.GetResources()),
		Volume:    api.VolumeID(c.optionalID("volume ID", m.GetVolume())),
		Size:      c.amount("size of a volume", m.GetSizeMilli()),
		Tag:       c.optionalID("tag of a reservation", m.GetTag()),
		Tasks:     Each(m.GetTasks(), TaskFromProto),
	}
	switch m.GetKind() {
	case apiv1.OperationKind_LAUNCH, apiv1.OperationKind_LAUNCH_GROUP, apiv1.OperationKind_RESERVE, apiv1.OperationKind_UNRESERVE:
	case apiv1.OperationKind_CREATE_VOLUME:
		if operation.Volume == "" || operation.Size == 0 {
			c.fail("creating a volume needs its ID and its size")
		}
	case apiv1.OperationKind_DESTROY_VOLUME:
		if operation.Volume == "" {
			c.fail("destroying a volume needs its ID")
		}
	default:
		c.failKind(api.Unsupported, "operation of kind %d is unknown here", m.GetKind())
	}
	return operation
}
