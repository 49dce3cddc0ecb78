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
)

// Config says what to look after.
type Config struct {
	// OutputMax is how many bytes of each stdout and stderr are kept at least; a quarter more may be there, and what was
	// written since the last look.
	OutputMax int64
	// Look names the folders that are written to, and those of ended tasks that were not measured yet. False: no more.
	Look func(ctx context.Context) ([]core.Sandbox, bool)
	// Tell takes what the sandboxes of tasks hold, in bytes. False: no more.
	Tell func(ctx context.Context, measured map[api.TaskRef]int64) bool
	// Open opens a folder to work in it, and Peek to look whether there is work, which is less. Defaults: by its path.
	Open func(folder string) (*os.Root, error)
	Peek func(folder string) (*os.File, error)
	Log  zerolog.Logger
}

const (
	// lookEvery is the pause between two looks at what is written. A writer that is so fast that it outgrows its bound
	// in that time is looked at more often.
	lookEvery = time.Second
	lookMin   = 50 * time.Millisecond
	// trimShare and measureShare: trimming takes at most a quarter of one processor, measuring a fiftieth.
	trimShare    = 4
	measureShare = 50
)

// Keeper looks after the folders of one agent.
type Keeper struct {
	config Config
	unable bool // the file system does not give the head of a file back, and the log says so
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

// Run works until the context ends, or nobody wants to know any more.
func (k *Keeper) Run(ctx context.Context) {
	var rested time.Time // from when on may be measured again
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
			if len(measured) > 0 && !k.config.Tell(ctx, measured) {
				return
			}
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return
		}
	}
}

// restAfter is the pause after a look that found so much more than is kept.
func restAfter(excess, most int64, took time.Duration) time.Duration {
	rest := lookEvery
	if excess > most && most > 0 {
		rest = max(time.Duration(float64(lookEvery)*float64(most)/float64(excess)), lookMin)
	}
	return max(rest, (trimShare-1)*took)
}

// trimAll trims the outputs in all folders and returns the most that one of them had too much.
func (k *Keeper) trimAll(sandboxes []core.Sandbox) (excess int64) {
	if k.config.OutputMax <= 0 {
		return 0
	}
	for _, sandbox := range sandboxes {
		over, err := k.trimFolder(sandbox.Folder)
		excess = max(excess, over)
		if errors.Is(err, errors.ErrUnsupported) && !k.unable {
			k.unable = true
			k.config.Log.Warn().Err(err).Msg("outputs of tasks are not bounded: this file system does not give the head of a file back")
		}
	}
	return excess
}

// outputs are the files that are bounded.
var outputs = []string{"stdout", "stderr"}

// mayTrim says whether an output in a folder is so large that it is worth opening: seldom, and each folder is looked at
// every second.
func (k *Keeper) mayTrim(folder string) bool {
	look, err := k.config.Peek(folder)
	if err != nil {
		return false // it is not there yet, or not any more
	}
	defer look.Close()
	return slices.ContainsFunc(outputs, func(name string) bool { return isOverfull(look, name, k.config.OutputMax) })
}

func (k *Keeper) trimFolder(folder string) (excess int64, err error) {
	if !k.mayTrim(folder) {
		return 0, nil
	}
	root, err := k.config.Open(folder)
	if err != nil {
		return 0, nil // not any more
	}
	defer root.Close()
	for _, name := range outputs {
		over, failed := trim(root, name, k.config.OutputMax)
		excess, err = max(excess, over), errors.Join(err, failed)
	}
	return excess, err
}

// measureAll measures the living sandboxes that are bounded, and those of ended tasks.
func (k *Keeper) measureAll(sandboxes []core.Sandbox) map[api.TaskRef]int64 {
	begin, measured := time.Now(), map[api.TaskRef]int64{}
	for _, sandbox := range sandboxes {
		switch {
		case sandbox.Task == (api.TaskRef{}), !sandbox.Ended && sandbox.DiskMax == 0:
		case sandbox.Ended && time.Since(begin) > measureTimeMax: // in the next round; what lives goes first
		default:
			measured[sandbox.Task] = k.measure(sandbox)
		}
	}
	return measured
}

// measure measures one sandbox. A folder that is not there takes nothing.
func (k *Keeper) measure(sandbox core.Sandbox) int64 {
	root, err := k.config.Open(sandbox.Folder)
	if err != nil {
		return 0
	}
	defer root.Close()
	return Measure(root, sandbox.DiskMax)
}

// measureTimeMax is how long one round goes on to ended tasks' sandboxes.
const measureTimeMax = 50 * time.Millisecond
