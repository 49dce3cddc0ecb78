package keeper

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
)

var (
	// ErrNoJob is of requests for a job that is not there.
	ErrNoJob   = errors.New("no job has this name")
	errDiffers = errors.New("a job of this name runs already and is another; update it, or choose another name")
	errSteps   = errors.New("the steps of a DAG that runs can't change; stop it and submit it anew, or choose another name")
	errGang    = errors.New("the members of a gang that runs can't change; stop it and submit it anew, or choose another name")
)

// Fresh is a job, or a version of one, that the store has yet to take. It is stored before it counts: what [Fresh.Writes]
// returns is written, as long as that leaves room for the jobs that there are, and then the keeper is told by
// [Fresh.Stored]. Whoever does so has claimed the name ([Keeper.Claim]). Nil: the job has the version already.
type Fresh struct {
	Begins  bool // it is a job, and not a version of one
	keeper  *Keeper
	op      string
	master  *core.JobMaster // with the version
	version jobs.Version
	seen    int      // the version that the job must still have; 0: any
	records []string // to be written, in this order
}

// Submit decides what becomes of a job that somebody submits, whose version has all but its number and its reason.
// A job that runs and is the same stays as it is. One that has ended is begun anew, as the run that is named.
func (k *Keeper) Submit(op string, version jobs.Version, run string) (jobs.Version, *Fresh, error) {
	job, there := version.Job, k.Job(version.Job.Name)
	version.Number, version.Why = 1, "submitted"
	var older map[int]jobs.Version
	switch {
	case there == nil && len(k.Names()) >= k.config.JobsMax:
		return version, nil, api.E(op, api.Limit, job.Name, fmt.Errorf("there are %d jobs, at most %d are allowed; delete some", len(k.Names()), k.config.JobsMax))
	case there == nil:
	case there.Phase.Ended():
		version.Number, version.Why = there.Next(), "submitted again"
		older = there.Versions
	case there.Phase == jobs.Stopping: // whoever stops a job and begins it at once waits for its tasks
		return version, nil, api.E(op, api.Unavailable, job.Name,
			errors.New("it was stopped and its tasks are still ending; it can begin anew when they have")).RetryIn(time.Second)
	case Same(there.Versions[there.Version].Job, job) && there.Phase == jobs.Running:
		return there.Versions[there.Version], nil, nil
	default:
		return version, nil, api.E(op, api.Exists, job.Name, fmt.Errorf("%w (it is %s)", errDiffers, there.Phase))
	}
	master := core.New(version, run)
	master.Inherit(older)
	return version, &Fresh{Begins: true, keeper: k, op: op, master: master, version: version, records: []string{core.VersionKey(version.Number), core.HeaderKey}}, nil
}

// Same reports whether two jobs are the same, whichever defaults they say.
func Same(a, b jobs.Job) bool { return reflect.DeepEqual(a.WithDefaults(), b.WithDefaults()) }

// Update decides what becomes of a new version of a job, which has all but its number and its reason. A job that is the
// same stays as it is. seen is the version that whoever asks has seen; 0: whichever it is. (R77)
func (k *Keeper) Update(op string, version jobs.Version, seen int) (jobs.Version, *Fresh, error) {
	there, err := k.runningJob(op, version.Job.Name)
	if err != nil {
		return version, nil, err
	}
	current := there.Versions[there.Version]
	if Same(current.Job, version.Job) {
		return current, nil, nil
	}
	version.Number, version.Why = there.Next(), "updated"
	return k.changeJob(op, there, current.Job, version, seen)
}

// Rollback decides what becomes of a job that is to be again what a version says; 0 is the version before the present
// one. seen is as in [Keeper.Update].
func (k *Keeper) Rollback(op, name string, to, seen int) (version jobs.Version, fresh *Fresh, err error) {
	there, err := k.runningJob(op, name)
	if err != nil {
		return version, nil, err
	}
	numbers := slices.Sorted(maps.Keys(there.Versions))
	if at := slices.Index(numbers, there.Version); to == 0 && at > 0 {
		to = numbers[at-1]
	}
	version, known := there.Versions[to]
	version.Why = "asked for"
	switch {
	case !known:
		return version, nil, api.E(op, api.Invalid, name, fmt.Errorf("version %d is not kept; there are %v", to, numbers))
	case to == there.Version:
		return version, nil, nil
	}
	return k.changeJob(op, there, there.Job, version, seen)
}

// runningJob returns a job that may change.
func (k *Keeper) runningJob(op, name string) (*core.JobMaster, error) {
	there := k.Job(name)
	switch {
	case there == nil:
		return nil, api.E(op, api.NotFound, name, ErrNoJob)
	case there.Phase != jobs.Running:
		return nil, api.E(op, api.Stale, name, fmt.Errorf("it is %s; submit it to begin it anew", there.Phase))
	}
	return there, nil
}

// checkSeen refuses a change that was decided by another version than the job has.
func checkSeen(op string, there *core.JobMaster, seen int) error {
	if seen == 0 || seen == there.Version {
		return nil
	}
	return api.E(op, api.Stale, there.Job.Name, fmt.Errorf("it is version %d by now (%s), and not version %d any more; look at what has changed, and decide anew",
		there.Version, there.Versions[there.Version].Why, seen))
}

// changeJob makes a version that a running job can become.
func (k *Keeper) changeJob(op string, there *core.JobMaster, from jobs.Job, version jobs.Version, seen int) (jobs.Version, *Fresh, error) {
	if err := checkSeen(op, there, seen); err != nil {
		return version, nil, err
	}
	if err := MayBecome(from, version.Job); err != nil {
		return version, nil, api.E(op, api.Invalid, version.Job.Name, err)
	}
	master := there.Clone()
	master.Versions[version.Number] = version
	return version, &Fresh{keeper: k, op: op, master: master, version: version, seen: seen, records: []string{core.VersionKey(version.Number)}}, nil
}

// MayBecome returns why a running job can't be changed into the other, or nil.
func MayBecome(job, other jobs.Job) error {
	switch {
	case job.Type != other.Type:
		return fmt.Errorf("it is a %s and can't become a %s; submit one of another name", job.Type, other.Type)
	case job.Type == jobs.DAGType:
		return errSteps
	case job.Type == jobs.GangType:
		return errGang
	}
	return nil
}

// Writes returns what is to be written, one after the other, before [Fresh.Stored] is called.
func (f *Fresh) Writes() (list []Write, err error) {
	for _, record := range f.records {
		value, err := f.master.Record(record)
		if err != nil {
			return nil, err
		}
		list = append(list, Write{Key: keyOf(f.master.Job.Name, record), Value: value, KeepFree: freeForAll})
	}
	return list, nil
}

// Refused says that the store has refused the write of this number, and surely not taken it. What was written before it
// is deleted again.
func (f *Fresh) Refused(number int) {
	for _, record := range f.records[:number] {
		f.keeper.markDirty(f.master.Job.Name, record)
	}
}

// Stored says that all is written: the job begins, or has the version from now on. One that has ended meanwhile, or has
// gone back from a bad version that was seen, does not know the version, which is deleted again.
func (f *Fresh) Stored(now time.Time) error {
	name := f.master.Job.Name
	if f.Begins {
		f.keeper.Add(f.master, now)
		return nil
	}
	there, err := f.keeper.runningJob(f.op, name)
	if err == nil {
		err = checkSeen(f.op, there, f.seen)
	}
	if err != nil {
		f.keeper.markDirty(name, core.VersionKey(f.version.Number))
		return err
	}
	f.keeper.Tell(name, now, core.Updated{Version: f.version})
	return nil
}
