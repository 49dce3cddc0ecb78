package core_test

import (
	"slices"
	"strconv"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
)

// verbOfVolumes is what becomes of the volumes of an agent.
func (w *world) verbOfVolumes(verb string, args transcript.Line) bool {
	a := w.agents[args.Word(0)]
	switch verb {
	case "keeps": // the agent has a volume's folder
		label := api.Label{Name: "disk", Reserved: "web", Dynamic: true, Volume: api.VolumeID(args.Word(1))}
		a.volumes = append(a.volumes, protocol.Volume{Resource: api.Resource{Label: label, Scalar: 200_000}, Generation: generationOf(a, args)})
	case "destroyed": // or not, with err
		done := protocol.VolumeDone{Volume: api.VolumeID(args.Word(1)), Generation: generationOf(a, args), Err: args.Named["err"]}
		if done.Err == "" {
			a.loseVolume(done.Volume, done.Generation)
		}
		w.agentSays(a, done)
	case "loses": // the agent loses a volume's folder
		a.loseVolume(api.VolumeID(args.Word(1)), generationOf(a, args))
	default:
		return false
	}
	return true
}

// generationOf reads of which generation a volume is; it is the one that the agent was told to make, or has, if none is
// written.
func generationOf(a *fakeAgent, args transcript.Line) uint64 {
	id := api.VolumeID(args.Word(1))
	if generation, err := strconv.ParseUint(args.Named["of"], 10, 64); err == nil {
		return generation
	}
	if i := slices.IndexFunc(a.volumes, func(v protocol.Volume) bool { return v.Volume == id }); i >= 0 {
		return a.volumes[i].Generation
	}
	return a.told[id]
}

func (a *fakeAgent) loseVolume(id api.VolumeID, generation uint64) {
	a.volumes = slices.DeleteFunc(a.volumes, func(v protocol.Volume) bool { return v.Volume == id && v.Generation == generation })
}
