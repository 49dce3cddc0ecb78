package version

import (
	"runtime/debug"
	"testing"
)

func TestText(t *testing.T) {
	none := func() (*debug.BuildInfo, bool) { return nil, false }
	imported := func() (*debug.BuildInfo, bool) {
		return &debug.BuildInfo{
			Main: debug.Module{Path: "example.com/batch", Version: "v9.9.9"},
			Deps: []*debug.Module{{Path: path, Version: "v0.3.1"}},
		}, true
	}
	built := func() (*debug.BuildInfo, bool) {
		return &debug.BuildInfo{Main: debug.Module{Path: path, Version: "(devel)"}}, true
	}
	for _, c := range []struct {
		name, version, commit string
		build                 func() (*debug.BuildInfo, bool)
		want                  string
	}{
		{"by make", "v0.3.1", "5d2c1e07a9b4c6aa00", none, "v0.3.1 (5d2c1e07a9b4)"},
		{"by make without git", "unknown", "unknown", none, "unknown"},
		{"a user's scheduler", "", "", imported, "v0.3.1"},
		{"by go run", "", "", built, "devel"},
		{"stripped of everything", "", "", none, "devel"},
		{"a short commit", "v1", "abc", none, "v1 (abc)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text(c.version, c.commit, c.build); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
