package api_test

import (
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
)

// The generators draw from few names and small numbers, so that labels and ranges meet often.

func genMilli(t *rapid.T) api.Milli {
	return api.Milli(rapid.Int64Range(0, 5000).Draw(t, "milli"))
}

func genRanges(t *rapid.T) api.Ranges {
	var ranges []api.Range
	for range rapid.IntRange(0, 4).Draw(t, "ranges") {
		begin := rapid.Uint64Range(0, 40).Draw(t, "begin")
		ranges = append(ranges, api.Range{Begin: begin, End: begin + rapid.Uint64Range(0, 9).Draw(t, "length")})
	}
	return api.NewRanges(ranges...)
}

func genSet(t *rapid.T) api.Set {
	return api.NewSet(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 0, 4).Draw(t, "set")...)
}

func genItem(t *rapid.T) api.Resource {
	item := api.Resource{Label: api.Label{Name: rapid.SampledFrom([]string{"cpus", "mem", "disk", "ports", "zones"}).Draw(t, "name")}}
	if rapid.Bool().Draw(t, "reserved") {
		item.Reserved = rapid.SampledFrom([]api.Role{"eng", "eng/web", "ops"}).Draw(t, "role")
		item.Dynamic = rapid.Bool().Draw(t, "dynamic")
		if item.Name == "disk" && rapid.Bool().Draw(t, "volume") {
			item.Volume = "v1"
		}
		if item.Dynamic {
			item.Tag = rapid.SampledFrom([]string{"", "", "ann"}).Draw(t, "tag")
		}
	} else {
		item.Revocable = rapid.IntRange(0, 3).Draw(t, "revocable") == 0
	}
	switch item.Name {
	case "ports":
		item.Ranges = genRanges(t)
	case "zones":
		item.Set = genSet(t)
	default:
		item.Scalar = genMilli(t)
	}
	return item
}

func genResources(t *rapid.T) api.Resources {
	return api.NewResources(rapid.SliceOfN(rapid.Custom(genItem), 0, 8).Draw(t, "items")...)
}

// genDisjoint draws resources that share no number of a range and no word of a set with r, so that a sum of both can be
// undone.
func genDisjoint(t *rapid.T, r api.Resources) api.Resources {
	return genResources(t).Without(onlySets(r))
}

// onlySets returns the part of r that a sum unites instead of adding up: its ranges and sets.
func onlySets(r api.Resources) api.Resources {
	var items []api.Resource
	for _, item := range r.Items() {
		item.Scalar = 0
		items = append(items, item)
	}
	return api.NewResources(items...)
}
