package cell

import (
	"math"
	"strconv"
	"strings"
)

// Allowance is how much of the machine the group that this process is in may use, with all groups around it, in
// containers too. Zero: no group says so.
type Allowance struct {
	CPUs   int64  // thousandths of a core
	Memory uint64 // bytes
}

// ReadAllowance reads the quotas and limits of the groups around this process: proc is /proc.
func ReadAllowance(proc string) Allowance {
	hierarchies, err := readHierarchies(proc)
	if err != nil {
		return Allowance{}
	}
	var a Allowance
	for _, h := range hierarchies {
		for _, folder := range h.above() {
			if h.version2 || h.has("cpu") {
				a.limitCPUs(readQuota(folder, h.version2))
			}
			if h.version2 || h.has("memory") {
				a.limitMemory(readLimit(folder, h.version2))
			}
		}
	}
	return a
}

func (a *Allowance) limitCPUs(milli int64) {
	if milli > 0 && (a.CPUs == 0 || milli < a.CPUs) {
		a.CPUs = milli
	}
}

func (a *Allowance) limitMemory(bytes uint64) {
	if bytes > 0 && (a.Memory == 0 || bytes < a.Memory) {
		a.Memory = bytes
	}
}

// readQuota is the share of processors in thousandths; 0: there is no quota.
func readQuota(folder string, version2 bool) int64 {
	var quota, period string
	if version2 {
		text, _ := read(folder, "cpu.max") // the root has none
		quota, period, _ = strings.Cut(text, " ")
	} else {
		quota, _ = read(folder, "cpu.cfs_quota_us") // without it there is no quota
		period, _ = read(folder, "cpu.cfs_period_us")
	}
	most, err := strconv.ParseInt(quota, 10, 64)
	each, err2 := strconv.ParseInt(period, 10, 64)
	if err != nil || err2 != nil || most <= 0 || each <= 0 || most > math.MaxInt64/1000 {
		return 0
	}
	return max(most*1000/each, 1)
}

// readLimit is the memory in bytes; 0: there is no limit, which version 1 says by a number that no machine has.
func readLimit(folder string, version2 bool) uint64 {
	const none = 1 << 62
	name := "memory.limit_in_bytes"
	if version2 {
		name = "memory.max"
	}
	bytes, err := readNumber(folder, name)
	if err != nil || bytes >= none {
		return 0
	}
	return bytes
}
