package registry

import (
	"slices"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestVolumesHaveGenerations: no two volumes have the same one, and what was destroyed stays until its agent has said
// that it is gone, whoever says what about another generation.
func TestVolumesHaveGenerations(t *testing.T) {
	s := New()
	done(t, s, AdmitAgent{Agent: api.Agent{Hostname: "h1"}, Nonce: "n1"})
	done(t, s, AdmitAgent{Agent: api.Agent{Hostname: "h2"}, Nonce: "n2"})
	reserve := func(id api.AgentID, volumes ...api.VolumeID) SetReserved {
		var items []api.Resource
		for _, volume := range volumes {
			items = append(items, volumeOf(volume))
		}
		return SetReserved{ID: id, Saw: s.Agents[id].Reserved, Reserved: api.NewResources(items...)}
	}
	has := func(id api.AgentID, want ...Volume) {
		t.Helper()
		if got := s.Agents[id].Volumes; !slices.EqualFunc(got, want, func(v, w Volume) bool {
			return v.is(w.Resource.Volume, w.Generation) && v.Destroying == w.Destroying
		}) {
			t.Errorf("%s has %+v, not %+v", id, got, want)
		}
	}
	v := func(id api.VolumeID, generation uint64, destroying bool) Volume {
		return Volume{volumeOf(id), generation, destroying}
	}

	done(t, s, reserve("agent-1", "v1", "v2"))
	done(t, s, reserve("agent-2", "v1"))
	has("agent-1", v("v1", 1, false), v("v2", 2, false))
	has("agent-2", v("v1", 3, false))
	done(t, s, reserve("agent-1", "v2"))
	has("agent-1", v("v1", 1, true), v("v2", 2, false))

	refused(t, s, api.Stale, reserve("agent-1", "v1", "v2"))
	refused(t, s, api.NotFound, VolumeGone{ID: "agent-1", Volume: "v1", Generation: 3})
	refused(t, s, api.NotFound, VolumeGone{ID: "agent-1", Volume: "v2", Generation: 2})
	refused(t, s, api.Stale, DestroyOrphan{ID: "agent-1", Volume: volumeOf("v2"), Generation: 2})
	refused(t, s, api.Invalid, DestroyOrphan{ID: "agent-1", Volume: volumeOf(""), Generation: 2})
	done(t, s, DestroyOrphan{ID: "agent-1", Volume: volumeOf("v2"), Generation: 9})
	done(t, s, DestroyOrphan{ID: "agent-1", Volume: volumeOf("v2"), Generation: 9}) // two have asked
	has("agent-1", v("v1", 1, true), v("v2", 2, false), v("v2", 9, true))

	done(t, s, VolumeGone{ID: "agent-1", Volume: "v1", Generation: 1})
	done(t, s, VolumeGone{ID: "agent-1", Volume: "v2", Generation: 9})
	done(t, s, reserve("agent-1", "v1", "v2"))
	has("agent-1", v("v1", 4, false), v("v2", 2, false))
	has("agent-2", v("v1", 3, false))

	s.BeginAnew(epoch)
	done(t, s, reserve("agent-2", "v1", "v3"))
	if made := s.Agents["agent-2"].Volumes[1].Generation; made < 5+anewStep {
		t.Errorf("a restored registry gives the generation %d", made)
	}
}

// TestDestroyedVolumesAreBounded: an agent that deletes nothing can't make the registry grow without end.
func TestDestroyedVolumesAreBounded(t *testing.T) {
	s := New()
	done(t, s, AdmitAgent{Agent: api.Agent{Hostname: "h1"}, Nonce: "n1"})
	for i := range VolumesDestroyingMax {
		done(t, s, DestroyOrphan{ID: "agent-1", Volume: volumeOf("v"), Generation: uint64(i)})
	}
	refused(t, s, api.Limit, DestroyOrphan{ID: "agent-1", Volume: volumeOf("v"), Generation: VolumesDestroyingMax})
	made := api.NewResources(volumeOf("w"))
	done(t, s, SetReserved{ID: "agent-1", Reserved: made})
	refused(t, s, api.Limit, SetReserved{ID: "agent-1", Saw: made})
}
