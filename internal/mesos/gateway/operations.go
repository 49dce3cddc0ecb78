package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/mesos/translate"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// change is an operation whose outcome is awaited.
type change struct {
	converted []*mesosv1.Resource // what the resources are once it is done
}

// change reads an operation that changes reservations or volumes. Where a volume is wanted is in the framework's store
// before the operation is sent.
func (s *session) change(ctx context.Context, role api.Role, operation *mesosv1.Offer_Operation) ([]api.Operation, error) {
	var changes []api.Operation
	var converted []*mesosv1.Resource
	switch operation.GetType() {
	case mesosv1.Offer_Operation_RESERVE, mesosv1.Offer_Operation_UNRESERVE:
		kind, list := api.OpReserve, operation.GetReserve().GetResources()
		if operation.GetType() == mesosv1.Offer_Operation_UNRESERVE {
			kind, list = api.OpUnreserve, operation.GetUnreserve().GetResources()
		} else {
			converted = list
		}
		if err := s.checkReservations(role, operation, list); err != nil {
			return nil, err
		}
		for tag, resources := range byTag(list) {
			some, err := translate.ReadResources(resources)
			if err != nil {
				return nil, err
			}
			changes = append(changes, api.Operation{Kind: kind, Resources: some.Plain(), Tag: tag})
		}
	case mesosv1.Offer_Operation_CREATE:
		for _, volume := range operation.GetCreate().GetVolumes() {
			if len(volume.GetReservations()) > 1 {
				return nil, fmt.Errorf("Volume %s with reservation refinement cannot be created on an agent without RESERVATION_REFINEMENT capability", volume.GetName()) //nolint:staticcheck // Mesos's words
			}
			id := translate.VolumeID(volume.GetDisk().GetPersistence().GetId())
			place := translate.Place{ContainerPath: volume.GetDisk().GetVolume().GetContainerPath(), Principal: volume.GetDisk().GetPersistence().GetPrincipal()}
			if err := s.keepPlace(ctx, id, place); err != nil {
				return nil, err
			}
			changes = append(changes, api.Operation{Kind: api.OpCreate, Volume: id, Size: api.MilliOf(volume.GetScalar().GetValue()), Tag: translate.TagOf(volume)})
		}
		converted = operation.GetCreate().GetVolumes()
	case mesosv1.Offer_Operation_DESTROY:
		for _, volume := range operation.GetDestroy().GetVolumes() {
			changes = append(changes, api.Operation{Kind: api.OpDestroy, Volume: translate.VolumeID(volume.GetDisk().GetPersistence().GetId())})
		}
	default:
		return nil, fmt.Errorf("Operation %s is not supported", operation.GetType()) //nolint:staticcheck // Mesos's words
	}
	if len(changes) == 0 {
		return nil, errors.New("it names no resources")
	}
	if id := operation.GetId().GetValue(); id != "" {
		last := &changes[len(changes)-1]
		last.ID = api.OperationID(translate.EscapeID(id))
		s.mu.Lock()
		s.changes[last.ID] = change{converted}
		s.mu.Unlock()
	}
	return changes, nil
}

// byTag yields the resources of each reservation, in the order in which they are named.
func byTag(list []*mesosv1.Resource) iter.Seq2[string, []*mesosv1.Resource] {
	return func(yield func(string, []*mesosv1.Resource) bool) {
		for len(list) > 0 {
			tag := translate.TagOf(list[0])
			some, rest := []*mesosv1.Resource(nil), []*mesosv1.Resource(nil)
			for _, r := range list {
				if translate.TagOf(r) == tag {
					some = append(some, r)
				} else {
					rest = append(rest, r)
				}
			}
			if list = rest; !yield(tag, some) {
				return
			}
		}
	}
}

// checkReservations checks what is to be reserved, or no longer, of offers in the role.
func (s *session) checkReservations(role api.Role, operation *mesosv1.Offer_Operation, list []*mesosv1.Resource) error {
	s.mu.Lock()
	roleName := s.framework.MesosRole(role)
	s.mu.Unlock()
	if len(operation.GetReserve().GetSource()) > 0 {
		return errors.New("a reservation can't be changed into another one: unreserve first")
	}
	for _, r := range list {
		stack, reservation := r.GetReservations(), translate.ReservationOf(r)
		switch {
		case reservation == nil:
			return fmt.Errorf("Resource %s is not dynamically reserved", r.GetName()) //nolint:staticcheck // Mesos's words
		case len(stack) > 1:
			return fmt.Errorf("Resource %s with reservation refinement cannot be reserved on an agent without RESERVATION_REFINEMENT capability", r.GetName()) //nolint:staticcheck // as above
		case operation.GetUnreserve() != nil && r.GetDisk().GetPersistence() != nil:
			//nolint:staticcheck // as above
			return fmt.Errorf("A dynamically reserved persistent volume %s cannot be unreserved directly. "+
				"Please destroy the persistent volume first then unreserve the resource", r.GetName())
		case operation.GetUnreserve() != nil:
		case s.who.name != "" && reservation.Principal == nil:
			//nolint:staticcheck // as above
			return fmt.Errorf("A reserve operation was attempted by principal '%s', but there is a reserved resource in the request with no principal set", s.who.name)
		case s.who.name != "" && reservation.GetPrincipal() != s.who.name:
			//nolint:staticcheck // as above
			return fmt.Errorf("A reserve operation was attempted by authenticated principal '%s', which does not match a "+
				"reserved resource in the request with principal '%s'", s.who.name, reservation.GetPrincipal())
		case translate.Role(reservation.GetRole()) != role:
			//nolint:staticcheck // as above
			return fmt.Errorf("A reserve operation was attempted for a resource with role '%s', but the resource was allocated to role '%s'",
				reservation.GetRole(), roleName)
		}
	}
	return nil
}

// OperationDone passes on the outcome of an operation that was given an ID.
func (s *session) OperationDone(_ context.Context, agent api.AgentID, operation api.OperationID, err error) {
	s.mu.Lock()
	awaited := s.changes[operation]
	delete(s.changes, operation)
	s.mu.Unlock()
	status := &mesosv1.OperationStatus{
		OperationId: &mesosv1.OperationID{Value: proto.String(translate.UnescapeID(string(operation)))},
		State:       mesosv1.OperationState_OPERATION_FINISHED.Enum(), ConvertedResources: awaited.converted,
	}
	if agent != "" {
		status.AgentId = translate.AgentID(agent)
	}
	if e := new(api.Error); errors.As(err, &e) {
		status.State, status.Message, status.ConvertedResources = mesosv1.OperationState_OPERATION_ERROR.Enum(), proto.String(err.Error()), nil
		switch e.Kind {
		case api.NotFound:
			status.State = mesosv1.OperationState_OPERATION_UNKNOWN.Enum()
		case api.Stale:
			status.State = mesosv1.OperationState_OPERATION_DROPPED.Enum()
		}
	}
	s.operationStatus(status)
}

// keepPlace remembers where a volume is wanted, durably.
func (s *session) keepPlace(ctx context.Context, id api.VolumeID, place translate.Place) error {
	value, err := protojson.Marshal(&mesosv1.Resource_DiskInfo{
		Persistence: &mesosv1.Resource_DiskInfo_Persistence{Id: proto.String(string(id)), Principal: proto.String(place.Principal)},
		Volume:      &mesosv1.Volume{ContainerPath: proto.String(place.ContainerPath), Mode: mesosv1.Volume_RW.Enum()},
	})
	if err == nil {
		_, err = s.client.Store().Put(ctx, placesPrefix+string(id), value, framework.AnyVersion)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[id] = place
	return nil
}

// readPlace takes in what keepPlace has written.
func readPlace(places map[api.VolumeID]translate.Place, entry framework.Entry) {
	disk := new(mesosv1.Resource_DiskInfo)
	if protojson.Unmarshal(entry.Value, disk) != nil {
		return // it was not written here
	}
	places[api.VolumeID(disk.GetPersistence().GetId())] = translate.Place{
		ContainerPath: disk.GetVolume().GetContainerPath(), Principal: disk.GetPersistence().GetPrincipal(),
	}
}
