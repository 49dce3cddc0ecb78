package launching_test

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/launching"
)

// TestSameExecutor: a scheduler that was restarted serves its executor at another address;
// by its checksum it is the same.
func TestSameExecutor(t *testing.T) {
	with := func(source, sum string) api.Executor {
		return api.Executor{ID: "x", Command: api.Command{Argv: []string{"bin/x"}, URIs: []api.URI{{Source: source, SHA256: sum, Name: "bin/x", Executable: true}}}}
	}
	as := func(user, dir string) api.Executor {
		return api.Executor{ID: "x", Command: api.Command{Shell: "x", User: user, Dir: dir}}
	}
	for what, c := range map[string]struct {
		a, b api.Executor
		same bool
	}{
		"another user":               {as("web", ""), as("", ""), false},
		"another folder":             {as("", "/srv"), as("", "/"), false},
		"the same file elsewhere":    {with("http://a:1/f", "00"), with("http://a:2/f", "00"), true},
		"another file":               {with("http://a:1/f", "00"), with("http://a:1/f", "01"), false},
		"two places, no checksum":    {with("/a", ""), with("/b", ""), false},
		"one place, no checksum":     {with("/a", ""), with("/a", ""), true},
		"one place, one is not sure": {with("/a", "00"), with("/a", ""), false},
	} {
		if launching.SameExecutor(c.a, c.b) != c.same {
			t.Errorf("%s: %v", what, !c.same)
		}
	}
}

// TestMessageFault: R4, R34. A launch that fits no message, because of what the framework says of itself or because of
// many ranges, is refused alone.
func TestMessageFault(t *testing.T) {
	said := func(bytes int) api.Framework {
		return api.Framework{Name: "f", Labels: map[string]string{"label": strings.Repeat("x", bytes)}}
	}
	if f := launching.MessageFault(said(api.LabelsBytesMax), api.TaskBytesMax, launching.Plan{}); f != nil {
		t.Errorf("what a framework may say is refused: %+v", f)
	}
	f := launching.MessageFault(said(api.MessageBytesMax), api.TaskBytesMax, launching.Plan{})
	if f == nil || !strings.Contains(f.Message, "fits no message") {
		t.Errorf("it came to %+v", f)
	}
}
