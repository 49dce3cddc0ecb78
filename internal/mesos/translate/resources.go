package translate

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tenderhq/tender/api"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// Place is where a volume is in the sandbox, and who has made it, as the framework has said.
type Place struct {
	ContainerPath string
	Principal     string
}

// VolumeID returns Tender's ID of a persistent volume.
func VolumeID(id string) api.VolumeID {
	// Colons and commas have a meaning in the notation of resources.
	return api.VolumeID(strings.NewReplacer(":", "%3A", ",", "%2C").Replace(EscapeID(id)))
}

// ReadResources reads resources as a framework lists them, in either format of reservations. A resource of 0 is left
// out: some frameworks ask for 0 of what there is none of.
func ReadResources(list []*mesosv1.Resource) (api.Resources, error) {
	items := make([]api.Resource, 0, len(list))
	for _, r := range list {
		item, err := readResource(r)
		if err != nil {
			return api.Resources{}, fmt.Errorf("resource '%s': %w", r.GetName(), err)
		}
		items = append(items, item)
	}
	all := api.NewResources(items...)
	return all, all.Check()
}

func readResource(r *mesosv1.Resource) (item api.Resource, err error) {
	item.Label = api.Label{Name: r.GetName(), Revocable: r.GetRevocable() != nil}
	switch stack := r.GetReservations(); {
	case len(stack) > 1:
		return item, unsupported("a refined reservation")
	case len(stack) == 1:
		item.Reserved = Role(stack[0].GetRole())
	case r.GetRole() != DefaultRole:
		item.Reserved = Role(r.GetRole())
	}
	if item.Reserved != "" {
		item.Dynamic, item.Tag = ReservationOf(r) != nil, TagOf(r)
	}
	if r.GetShared() != nil {
		return item, unsupported("a shared resource")
	}
	if disk := r.GetDisk(); disk.GetSource() != nil {
		return item, unsupported("a disk's source")
	} else if id := disk.GetPersistence().GetId(); id != "" {
		item.Volume = VolumeID(id)
	}
	switch r.GetType() {
	case mesosv1.Value_SCALAR:
		amount := r.GetScalar().GetValue()
		if math.IsNaN(amount) || amount < 0 || amount > api.MilliMax.Float() {
			return item, fmt.Errorf("invalid scalar %v", amount)
		}
		item.Scalar = api.MilliOf(amount)
	case mesosv1.Value_RANGES:
		ranges := make([]api.Range, 0, len(r.GetRanges().GetRange()))
		for _, one := range r.GetRanges().GetRange() {
			if one.GetBegin() > one.GetEnd() {
				return item, errors.New("invalid range: begin is greater than end")
			}
			ranges = append(ranges, api.Range{Begin: one.GetBegin(), End: one.GetEnd()})
		}
		item.Ranges = api.NewRanges(ranges...)
	case mesosv1.Value_SET:
		item.Set = api.NewSet(r.GetSet().GetItem()...)
	default:
		return item, errors.New("unsupported type")
	}
	return item, nil
}

// WriteResources lists resources as the framework reads them: allocated to a role if it is MULTI_ROLE capable, without
// GPUs if it does not know them, and with reservations in its format. places says where volumes are.
func (f *Framework) WriteResources(resources api.Resources, allocated api.Role, places map[api.VolumeID]Place) []*mesosv1.Resource {
	var list []*mesosv1.Resource
	for _, item := range resources.Items() {
		if item.Name == api.GPUs && !f.can[mesosv1.FrameworkInfo_Capability_GPU_RESOURCES] {
			continue
		}
		r := WriteAmount(item)
		if f.MultiRole() && allocated != "" {
			r.AllocationInfo = &mesosv1.Resource_AllocationInfo{Role: ptr(f.MesosRole(allocated))}
		}
		f.writeReservation(r, item.Label)
		if item.Volume != "" {
			place := places[item.Volume]
			id := UnescapeID(string(item.Volume))
			path := place.ContainerPath
			if path == "" {
				path = "volumes/" + id
			}
			r.Disk = &mesosv1.Resource_DiskInfo{
				Persistence: &mesosv1.Resource_DiskInfo_Persistence{Id: ptr(id)},
				Volume:      &mesosv1.Volume{ContainerPath: ptr(path), Mode: mesosv1.Volume_RW.Enum()},
			}
			if place.Principal != "" {
				r.Disk.Persistence.Principal = ptr(place.Principal)
			}
		}
		list = append(list, r)
	}
	return list
}

func (f *Framework) writeReservation(r *mesosv1.Resource, label api.Label) {
	by, labels := readTag(label.Tag)
	role := f.MesosRole(label.Reserved)
	switch {
	case label.Reserved == "" && !f.Refines():
		r.Role = ptr(DefaultRole)
	case label.Reserved == "":
	case f.Refines():
		kind := mesosv1.Resource_ReservationInfo_STATIC
		if label.Dynamic {
			kind = mesosv1.Resource_ReservationInfo_DYNAMIC
		}
		r.Reservations = []*mesosv1.Resource_ReservationInfo{{Type: kind.Enum(), Role: ptr(role), Principal: by, Labels: labels}}
	default:
		r.Role = ptr(role)
		if label.Dynamic {
			r.Reservation = &mesosv1.Resource_ReservationInfo{Principal: by, Labels: labels}
		}
	}
}

// WriteAmount writes name, amount and whether it is revocable.
func WriteAmount(item api.Resource) *mesosv1.Resource {
	r := &mesosv1.Resource{Name: ptr(item.Name)}
	switch {
	case len(item.Ranges) > 0:
		r.Type, r.Ranges = mesosv1.Value_RANGES.Enum(), new(mesosv1.Value_Ranges)
		for _, one := range item.Ranges {
			r.Ranges.Range = append(r.Ranges.Range, &mesosv1.Value_Range{Begin: ptr(one.Begin), End: ptr(one.End)})
		}
	case len(item.Set) > 0:
		r.Type, r.Set = mesosv1.Value_SET.Enum(), &mesosv1.Value_Set{Item: item.Set}
	default:
		r.Type, r.Scalar = mesosv1.Value_SCALAR.Enum(), &mesosv1.Value_Scalar{Value: ptr(item.Scalar.Float())}
	}
	if item.Revocable {
		r.Revocable = new(mesosv1.Resource_RevocableInfo)
	}
	return r
}
