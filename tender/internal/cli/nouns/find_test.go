package nouns

import (
	"testing"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestANameMeansWhatIsThere: the name of a host or of a framework means the one that is there, not one that is gone or was
// removed, as long as there is one.
func TestANameMeansWhatIsThere(t *testing.T) {
	gone := &apiv1.AgentView{Marks: []string{"gone"}}
	removed := &apiv1.FrameworkView{State: "removed"}
	for _, c := range []struct {
		there []proto.Message
		want  string // "": it is not clear
	}{
		{[]proto.Message{gone}, "0"},
		{[]proto.Message{gone, &apiv1.AgentView{}}, "1"},
		{[]proto.Message{gone, &apiv1.AgentView{}, gone}, "1"},
		{[]proto.Message{&apiv1.AgentView{}, &apiv1.AgentView{}}, ""},
		{[]proto.Message{gone, gone}, ""},
		{[]proto.Message{&apiv1.FrameworkView{State: "active"}, removed}, "0"},
	} {
		var items []Item
		for i, thing := range c.there {
			items = append(items, Item{ID: string(rune('0' + i)), Name: "a2", Message: thing})
		}
		got := ""
		if found := soleMatch(items, "a2"); found != nil {
			got = found.ID
		}
		if got != c.want {
			t.Errorf("of %v a2 means %q, not %q", c.there, got, c.want)
		}
	}
}
