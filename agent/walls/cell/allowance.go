package cell

import (
	"math"
	"strconv"
	"strings"
)

// Allowance is how much of the machine this process may use, by the limits of its control group and of all groups
// around that one. It is right in a container too. A field is zero where no group has a limit.
type Allowance struct {
	CPUs   int64  // thousandths of a core
	Memory uint64 // bytes
}

// ReadAllowance reads the quotas and limits of the groups that this process is in. proc is /proc.
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

// readQuota reads a group's quota of processor time, in thousandths of a core; 0 if there is none.
func readQuota(folder string, version2 bool) int64 {
	var quota, period string
	if version2 {
		text, _ := read(folder, "cpu.max") // the root has no such file
		quota, period, _ = strings.Cut(text, " ")
	} else {
		quota, _ = read(folder, "cpu.cfs_quota_us") // without this file there is no quota
		period, _ = read(folder, "cpu.cfs_period_us")
	}
	most, err := strconv.ParseInt(quota, 10, 64)
	each, err2 := strconv.ParseInt(period, 10, 64)
	if err != nil || err2 != nil || most <= 0 || each <= 0 || most > math.MaxInt64/1000 {
		return 0
	}
	return max(most*1000/each, 1)
}

// readLimit reads a group's limit of memory, in bytes; 0 if there is none. Version 1 says that there is no limit by a
// number that is larger than the memory of any machine.
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
