package main

import (
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// cpuOf returns the CPU time, in seconds, of a process and of all its descendants, including those that have ended. A
// process that is gone counts nothing.
func cpuOf(pid int) float64 {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0
	}
	stats := map[int]procfs.ProcStat{}
	for _, process := range all {
		if stat, err := process.Stat(); err == nil {
			stats[process.PID] = stat
		}
	}
	var sum float64
	for id, stat := range stats {
		if below(stats, id, pid) {
			// CUTime counts children that were waited for.
			sum += stat.CPUTime() + float64(stat.CUTime+stat.CSTime)/userHZ
		}
	}
	return sum
}

const userHZ = 100

func below(stats map[int]procfs.ProcStat, id, pid int) bool {
	for id > 1 {
		if id == pid {
			return true
		}
		id = stats[id].PPID
	}
	return false
}

// ownCPU returns the CPU time, in seconds, of the process alone; 0 if it has ended.
func ownCPU(pid int) float64 { return statOf(pid).CPUTime() }

// residentMB returns its resident memory in MB; 0 if it has ended.
func residentMB(pid int) float64 { return float64(statOf(pid).ResidentMemory()) / (1 << 20) }

// ownMB returns the memory, in MB, that belongs to the process alone, without mapped files; 0 if it has ended.
func ownMB(pid int) float64 {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	status, err := process.NewStatus()
	if err != nil {
		return 0
	}
	return float64(status.RssAnon) / (1 << 20)
}

func statOf(pid int) procfs.ProcStat {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}
	}
	stat, err := process.Stat()
	if err != nil {
		return procfs.ProcStat{}
	}
	return stat
}

// machineLoad returns how many processes wanted to run during the last minute, on average.
func machineLoad() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	load, _ := strconv.ParseFloat(strings.Fields(string(text))[0], 64) // the kernel writes numbers
	return load
}
