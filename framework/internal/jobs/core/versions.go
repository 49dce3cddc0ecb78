package core

import (
	"maps"
	"slices"
)

// versions judges the versions of the job, and forgets those that nobody needs.
type versions struct{ *base }

// pruneVersions forgets the oldest versions that are no longer needed.
func (r *versions) pruneVersions(kept ...int) {
	if len(r.Versions) <= VersionsMax {
		return
	}
	needed := map[int]bool{r.Version: true}
	for _, number := range kept {
		needed[number] = true
	}
	for _, sub := range r.Subs {
		needed[sub.Kept] = true
		for _, s := range sub.allSlots() {
			needed[s.Version] = true
			for _, a := range s.tasks() {
				needed[a.Version] = true
			}
		}
	}
	for _, number := range slices.Sorted(maps.Keys(r.Versions)) {
		if len(r.Versions) <= VersionsMax {
			return
		}
		if !needed[number] {
			delete(r.Versions, number)
			r.emit(Save{VersionKey(number)})
		}
	}
}

// judgeVersion marks a version as proven or, if why is not "", as bad.
func (r *versions) judgeVersion(number int, why string) {
	version := r.Versions[number]
	if proven := why == ""; version.Proven != proven || version.Bad != why {
		version.Proven, version.Bad = proven, why
		r.Versions[number] = version
		r.emit(Save{VersionKey(number)})
	}
}
