// Package upkeep keeps what tasks and executors write on an agent's disk within bounds. Of a growing output the disk
// holds the newest part: the head of the file is given back while its writer continues. So nothing is copied, no pipe
// is needed, no byte of the newest part is lost and offsets stay what they were. The package also measures sandboxes,
// for the agent's core to judge.
//
// It decides nothing about tasks, follows no link, and touches no file that has another name elsewhere.
package upkeep

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
)

// Config says what is kept within bounds.
type Config struct {
	// OutputMax is how many bytes of each stdout and stderr are kept at least. There may be a quarter more, and what
	// was written since the last look.
	OutputMax int64
	// Look returns the folders that are written to, and those of ended tasks that were not measured yet. False: the
	// keeper is to end.
	Look func(ctx context.Context) ([]core.Sandbox, bool)
	// Tell takes what was measured, if that is anything. False: the keeper is to end.
	Tell func(ctx context.Context, measured core.Measured) bool
	// Open opens a folder to work in it. Peek opens it only to see whether there is work, which is cheaper. Default:
	// both open it by its path.
	Open func(folder string) (*os.Root, error)
	Peek func(folder string) (*os.File, error)
	Log  zerolog.Logger
}

const (
	// lookEvery is the pause between two looks at what is written. If an output grows beyond its limit within that
	// time, the pause is shorter, but at least lookMin.
	lookEvery = time.Second
	lookMin   = 50 * time.Millisecond
	// trimShare and measureShare: trimming takes at most a quarter of one processor, and measuring a fiftieth.
	trimShare    = 4
	measureShare = 50
)

// Keeper looks after the folders of one agent.
type Keeper struct {
	config Config
	unable bool // the file system can't give the head of a file back, and that was logged
}

// New makes a keeper.
func New(config Config) *Keeper {
	if config.Open == nil {
		config.Open = os.OpenRoot
	}
	if config.Peek == nil {
		config.Peek = os.Open
	}
	return &Keeper{config: config}
}

// Run works until the context ends, or Look or Tell returns false.
func (k *Keeper) Run(ctx context.Context) {
	var rested time.Time // when the next measurement may begin
	for {
		begin := time.Now()
		sandboxes, more := k.config.Look(ctx)
		if !more {
			return
		}
		rest := restAfter(k.trimAll(sandboxes), k.config.OutputMax, time.Since(begin))
		if begin = time.Now(); !begin.Before(rested) {
			measured := k.measureAll(sandboxes)
			rested = begin.Add(measureShare * time.Since(begin))
			if len(measured.Sandboxes)+len(measured.Volumes) > 0 && !k.config.Tell(ctx, measured) {
				return
			}
		}
		if !pause.For(ctx, rest) {
			return
		}
	}
}

// restAfter returns the pause after a look that found that much more than is to be kept.
func restAfter(excess, most int64, took time.Duration) time.Duration {
	rest := lookEvery
	if excess > most && most > 0 {
		rest = max(time.Duration(float64(lookEvery)*float64(most)/float64(excess)), lookMin)
	}
	return max(rest, (trimShare-1)*took)
}

// trimAll trims the outputs of tasks and executors that live; those of ended tasks are trimmed when they are measured. It
// returns by how much the largest one exceeded what is to be kept.
func (k *Keeper) trimAll(sandboxes []core.Sandbox) (excess int64) {
	if k.config.OutputMax <= 0 {
		return 0
	}
	for _, sandbox := range sandboxes {
		if sandbox.Volume != "" || sandbox.Ended {
			continue // there are no outputs in a volume, whatever its files are called
		}
		excess = max(excess, k.trimFolder(sandbox.Folder))
	}
	return excess
}

// outputs are the files that are kept within bounds.
var outputs = []string{"stdout", "stderr"}

// mayTrim says whether an output in a folder is so large that it is worth opening. That is seldom the case, and each
// folder is looked at every second.
func (k *Keeper) mayTrim(folder string) bool {
	look, err := k.config.Peek(folder)
	if err != nil {
		return false // it does not exist yet, or any more
	}
	defer look.Close()
	return slices.ContainsFunc(outputs, func(name string) bool { return isOverfull(look, name, k.config.OutputMax) })
}

// trimFolder trims the outputs in a folder, and returns by how much the larger one exceeded what is to be kept.
func (k *Keeper) trimFolder(folder string) (excess int64) {
	if k.config.OutputMax <= 0 || !k.mayTrim(folder) {
		return 0
	}
	root, err := k.config.Open(folder)
	if err != nil {
		return 0 // it does not exist any more
	}
	defer root.Close()
	for _, name := range outputs {
		over, failed := trim(root, name, k.config.OutputMax)
		if excess = max(excess, over); errors.Is(failed, errors.ErrUnsupported) && !k.unable {
			k.unable = true
			k.config.Log.Warn().Err(failed).Msg("outputs of tasks are not limited: this file system can't release the beginning of a file")
		}
	}
	return excess
}

// measureAll measures the living sandboxes that have a limit, those of ended tasks, and volumes.
func (k *Keeper) measureAll(sandboxes []core.Sandbox) core.Measured {
	begin, measured := time.Now(), core.Measured{Sandboxes: map[api.TaskRef]int64{}, Volumes: map[api.VolumeID]int64{}}
	for _, sandbox := range sandboxes {
		switch {
		case sandbox.Ended && time.Since(begin) > measureTimeMax: // it is measured in the next round; living ones come first
		case !sandbox.Ended && sandbox.DiskMax == 0:
		case sandbox.Volume != "":
			measured.Volumes[sandbox.Volume] = k.measure(sandbox)
		case sandbox.Task != api.TaskRef{}:
			bytes := k.measure(sandbox)
			if sandbox.Ended && bytes > k.config.OutputMax && k.trimFolder(sandbox.Folder) > 0 {
				bytes = k.measure(sandbox)
			}
			measured.Sandboxes[sandbox.Task] = bytes
		}
	}
	return measured
}

// measure measures one sandbox. A folder that does not exist takes nothing.
func (k *Keeper) measure(sandbox core.Sandbox) int64 {
	root, err := k.config.Open(sandbox.Folder)
	if err != nil {
		return 0
	}
	defer root.Close()
	return Measure(root, sandbox.DiskMax)
}

// measureTimeMax is how long one round goes on measuring sandboxes of ended tasks, and volumes that nobody uses.
const measureTimeMax = 50 * time.Millisecond
