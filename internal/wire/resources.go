package wire

import (
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

// ResourcesToProto makes the messages of a bundle, ordered by label.
func ResourcesToProto(resources api.Resources) []*apiv1.Resource {
	items := resources.Items()
	if len(items) == 0 {
		return nil
	}
	slab := make([]apiv1.Resource, len(items)) // one allocation for all
	all := make([]*apiv1.Resource, len(items))
	for i := range items {
		fillResource(&slab[i], &items[i])
		all[i] = &slab[i]
	}
	return all
}

// ResourceToProto makes the message of one resource.
func ResourceToProto(item api.Resource) *apiv1.Resource {
	m := new(apiv1.Resource)
	fillResource(m, &item)
	return m
}

func fillResource(m *apiv1.Resource, item *api.Resource) {
	m.Name = clean(item.Name)
	m.Milli = int64(item.Scalar)
	m.Reserved = clean(item.Reserved)
	m.Dynamic = item.Dynamic
	m.Volume = clean(item.Volume)
	m.Tag = clean(item.Tag)
	m.Revocable = item.Revocable
	if len(item.Ranges) > 0 {
		m.Ranges = rangesToProto(item.Ranges)
	}
	if len(item.Set) > 0 {
		m.Set = Texts(item.Set)
	}
}

func rangesToProto(ranges api.Ranges) []*apiv1.Range {
	slab := make([]apiv1.Range, len(ranges))
	all := make([]*apiv1.Range, len(ranges))
	for i, one := range ranges {
		slab[i].Begin, slab[i].End = one.Begin, one.End
		all[i] = &slab[i]
	}
	return all
}

// ResourcesFromProto reads a bundle and checks it.
func ResourcesFromProto(items []*apiv1.Resource) (api.Resources, error) {
	c := new(checker)
	resources := c.resources("resources", items)
	return resources, c.error("wire.resources", "")
}

// ResourcesOf reads a bundle without checking it; api.Resources.Check does that.
func ResourcesOf(items []*apiv1.Resource) api.Resources {
	return trusting().resources("", items)
}

func (c *checker) resources(noun string, items []*apiv1.Resource) api.Resources {
	if len(items) == 0 {
		return api.Resources{}
	}
	read := Each(items, readResource)
	// Each item is checked before the sum, so that the sum can't hide a wrong one.
	if !c.lenient && c.err == nil {
		for i := range read {
			if err := read[i].Check(); err != nil {
				c.fail("%s: %w", noun, err)
				return api.Resources{}
			}
		}
	}
	bundle := api.OwnResources(read)
	if !c.lenient && c.err == nil {
		if err := bundle.Check(); err != nil {
			c.fail("%s: %w", noun, err)
		}
	}
	return bundle
}

// VolumeToProto makes the message of a volume.
func VolumeToProto(volume protocol.Volume) *apiv1.Volume {
	return &apiv1.Volume{Resource: ResourceToProto(volume.Resource), Generation: volume.Generation}
}

// VolumeOf reads the message of a volume from a source that is trusted.
func VolumeOf(m *apiv1.Volume) protocol.Volume {
	return protocol.Volume{Resource: ResourceOf(m.GetResource()), Generation: m.GetGeneration()}
}

// ResourceOf reads the message of one resource from a source that is trusted.
func ResourceOf(m *apiv1.Resource) api.Resource { return readResource(m) }

func readResource(m *apiv1.Resource) api.Resource {
	item := api.Resource{
		Label: api.Label{
			Name:      m.GetName(),
			Reserved:  api.Role(m.GetReserved()),
			Dynamic:   m.GetDynamic(),
			Volume:    api.VolumeID(m.GetVolume()),
			Tag:       m.GetTag(),
			Revocable: m.GetRevocable(),
		},
		Scalar: api.Milli(m.GetMilli()),
	}
	if len(m.GetRanges()) > 0 {
		item.Ranges = readRanges(m.GetRanges())
	}
	if len(m.GetSet()) > 0 {
		item.Set = api.NewSet(m.GetSet()...)
	}
	return item
}

// readRanges keeps a range that ends before it begins, so that Check finds it.
func readRanges(ranges []*apiv1.Range) api.Ranges {
	read := make([]api.Range, len(ranges))
	wrong := false
	for i, one := range ranges {
		read[i] = api.Range{Begin: one.GetBegin(), End: one.GetEnd()}
		wrong = wrong || one.GetEnd() < one.GetBegin()
	}
	if wrong {
		return read
	}
	return api.NewRanges(read...)
}
