package cell

import (
	"reflect"
	"testing"

	"github.com/tenderhq/tender/api"
)

func TestWhatATaskMayUse(t *testing.T) {
	revocable := api.Scalars(2, 100).AsRevocable()
	for _, test := range []struct {
		name  string
		rules Rules
		task  api.Task
		want  Limits
	}{
		{"what it asks for", Rules{PidsMax: 4096}, api.Task{Resources: api.Scalars(1.5, 256)}, Limits{CPUs: 1500, Memory: 256 << 20, Pids: 4096}},
		{"no less than a program needs", Rules{}, api.Task{Resources: api.Scalars(0.1, 1)}, Limits{CPUs: 100, Memory: 32 << 20}},
		{"no memory asked for", Rules{}, api.Task{Resources: api.Scalars(1, 0)}, Limits{CPUs: 1000}},
		{"limits of its own", Rules{PidsMax: 4096, HardQuota: true}, api.Task{
			Resources: api.Scalars(1, 64), Limits: api.Limits{CPUs: 2500, Mem: 128_000, Pids: 10}}, Limits{CPUs: 1000, Quota: 2500, Memory: 128 << 20, Pids: 10}},
		{"no more than it asks for", Rules{HardQuota: true}, api.Task{Resources: api.Scalars(0.5, 64)}, Limits{CPUs: 500, Quota: 500, Memory: 64 << 20}},
		{"revocable", Rules{}, api.Task{Resources: revocable}, Limits{Memory: 100 << 20}},
	} {
		if got := test.rules.Limits(&test.task); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestHandout(t *testing.T) {
	told := Handout{Cell: Cell{Grade: Hybrid, Unified: "/u", Memory: "/m"}, Rules: Rules{PidsMax: 7, HardQuota: true}}
	if got, err := ParseHandout(told.String()); !reflect.DeepEqual(got, told) || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}
