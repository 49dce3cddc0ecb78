// Package version says which build of Tender this is: the same words in `tender version`, in the first message of
// every session (R1) and in the logs. It is a leaf: it imports nothing of ours and decides nothing.
package version

import "runtime/debug"

// Version and Commit are written by the linker (see the Makefile); "" in a build by plain `go build`, `go run` or `go test`.
var (
	Version = ""
	Commit  = ""
)

// commitCharsShown is enough to find a commit and short enough to read aloud.
const commitCharsShown = 12

// String is the version and, where it adds something, the commit: "v0.3.1 (5d2c1e07a9b4)".
func String() string {
	return text(Version, Commit, debug.ReadBuildInfo)
}

// text prefers what the linker wrote; a program that merely imports the SDK reports its own build otherwise.
func text(version, commit string, build func() (*debug.BuildInfo, bool)) string {
	if version == "" {
		version = module(build)
	}
	if commit == "" || commit == "unknown" {
		return version
	}
	return version + " (" + commit[:min(len(commit), commitCharsShown)] + ")"
}

const path = "github.com/tenderhq/tender"

// module is Tender's version as the go command recorded it, as main module or as a dependency.
func module(build func() (*debug.BuildInfo, bool)) string {
	const unknown = "devel"
	info, ok := build()
	if !ok {
		return unknown
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return unknown
}
