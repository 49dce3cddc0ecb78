package cli

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestALimitBelowWhatTheRoleHas: that is said of each kind, and nothing of kinds without a limit or within it.
func TestALimitBelowWhatTheRoleHas(t *testing.T) {
	fields := func(of map[string]any) *structpb.Struct {
		s, err := structpb.NewStruct(of)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	got := whatIsOver(&apiv1.RoleView{
		Role: "eng", Limit: fields(map[string]any{"cpus": 0.5, "mem": 64, "ports": "[1-2]"}), Allocated: fields(map[string]any{"cpus": 1, "mem": 64, "disk": 5}),
	})
	if want := "role eng has cpus 1 already; its tasks run on, and it gets no more until it has less than 0.5"; len(got) != 1 || got[0] != want {
		t.Errorf("said is %q", got)
	}
}

// TestAChangeOfARoleShowsWhatWas: what is set replaces what was set before, so that is shown as well.
func TestAChangeOfARoleShowsWhatWas(t *testing.T) {
	resources := func(of map[string]any) *structpb.Struct {
		s, err := structpb.NewStruct(of)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := &apiv1.RoleView{Role: "eng", Weight: 1, Guarantee: resources(map[string]any{"cpus": 8, "mem": 512}), Limit: resources(map[string]any{"cpus": 9})}
	after := &apiv1.RoleView{Role: "eng", Weight: 2, Guarantee: resources(map[string]any{"cpus": 4}), Frameworks: 3}
	got := map[string]string{}
	for _, field := range changedFields(before, after) {
		got[field[0]] = field[1]
	}
	for field, want := range map[string]string{
		"Weight": "2 (was 1)", "Guarantee": "cpus 4 (was cpus 8, mem 512)", "Limit": "none (was cpus 9)", "Priority": "0", "Frameworks": "3",
	} {
		if got[field] != want {
			t.Errorf("%s: %q, want %q", field, got[field], want)
		}
	}
	if fields := changedFields(nil, after); fields[3] != [2]string{"Guarantee", "cpus 4 (was none)"} {
		t.Errorf("a role that is new: %v", fields[3])
	}
}
