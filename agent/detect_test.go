package agent

import (
	"runtime"
	"testing"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
)

// An agent in a container offers what the container may use, less the reserve.
func TestWhatAContainerMayUseIsOffered(t *testing.T) {
	folder := t.TempDir()
	for _, test := range []struct {
		allowed   cell.Allowance
		cpus, mem api.Milli
	}{
		{cell.Allowance{CPUs: 500, Memory: 2 << 30}, 500, (2048 - 512) * 1000},
		{cell.Allowance{CPUs: 1 << 40, Memory: 256 << 20}, api.Milli(runtime.NumCPU()) * 1000, 128 * 1000},
	} {
		got := detect(folder, test.allowed)
		if got.Scalar("cpus") != test.cpus || got.Scalar("mem") != test.mem {
			t.Errorf("%+v: %v", test.allowed, got)
		}
	}
	all := detect(folder, cell.Allowance{})
	if all.Scalar("cpus") != api.Milli(runtime.NumCPU())*1000 || all.Scalar("mem") <= 0 {
		t.Errorf("of the whole machine: %v", all)
	}
}
