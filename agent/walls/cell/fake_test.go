package cell

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// fill writes files into a folder.
func fill(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// version2 returns a cell of version 2 that is made of plain files with the names and contents of the kernel's.
func version2(t *testing.T) Cell {
	folder := t.TempDir()
	files := map[string]string{
		"cgroup.events": "populated 1\nfrozen 0\n", "memory.current": "52428800\n", "memory.peak": "67108864\n",
		"memory.stat": "anon 1000\nfile 20971520\nshmem 10485760\n", "memory.events": "low 0\noom 2\noom_kill 1\n",
		"pids.events": "max 7\n", "cpu.stat": "usage_usec 1500000\nuser_usec 1\n", "cgroup.procs": "11\n12\n", "task@1/cgroup.procs": "13\n",
	}
	for _, empty := range []string{
		"cpu.weight", "cpu.max", "memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "io.weight", "cgroup.kill", "cgroup.subtree_control",
	} {
		files[empty] = ""
	}
	fill(t, folder, files)
	return Cell{Grade: Cgroup2, Unified: folder, CPU: folder, Memory: folder, Pids: folder, IO: folder}
}

// written returns what was written into files that were empty.
func written(t *testing.T, c Cell, names ...string) string {
	t.Helper()
	var all []string
	for _, name := range names {
		text, err := read(c.Unified, name)
		if err != nil {
			t.Error(err)
		}
		all = append(all, name+"="+text)
	}
	return strings.Join(all, " ")
}

// Limits are written to the files of version 2, to the letter.
func TestVersion2IsWritten(t *testing.T) {
	for _, test := range []struct {
		limits Limits
		want   string
	}{
		{Limits{CPUs: 1500, Quota: 2500, Memory: 256 << 20, Pids: 4096},
			"cpu.weight=150 cpu.max=250000 100000 memory.max=268435456 memory.swap.max=0 memory.oom.group=1 pids.max=4096 io.weight=150"},
		{Limits{}, "cpu.weight=1 cpu.max= memory.max= memory.swap.max= memory.oom.group= pids.max= io.weight=1"},
		{Limits{CPUs: 1 << 40, Quota: 1, Memory: 1 << 20}, // less memory than is in use, and less than the lowest quota
			"cpu.weight=10000 cpu.max=1000 100000 memory.max=52428800 memory.swap.max=0 memory.oom.group=1 pids.max= io.weight=10000"},
	} {
		c := version2(t)
		if err := c.Limit(test.limits); err != nil {
			t.Error(err)
		}
		if got := written(t, c, "cpu.weight", "cpu.max", "memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "io.weight"); got != test.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", test.limits, got, test.want)
		}
	}
}

func TestVersion2IsRead(t *testing.T) {
	c := version2(t)
	if events, err := c.Events(); err != nil || events != (Events{MemoryKills: 1, PidsRefused: 7}) {
		t.Errorf("%+v, %v", events, err)
	}
	if usage, err := c.Usage(); err != nil || usage != (Usage{CPU: 1500 * time.Millisecond, Memory: 40 << 20, Processes: 3}) {
		t.Errorf("%+v, %v", usage, err)
	}
	if peak := c.Peak(); peak != 64<<20 {
		t.Errorf("peak %d", peak)
	}
	populated, err := c.Populated()
	if err = errors.Join(err, c.Kill(), c.handDown()); !populated || err != nil {
		t.Errorf("%v, %v", populated, err)
	}
	if got := written(t, c, "cgroup.kill", "cgroup.subtree_control"); got != "cgroup.kill=1 cgroup.subtree_control=+pidsy" && got != "cgroup.kill=1 cgroup.subtree_control=+pidsry" {
		t.Errorf("%s", got) // each word is a write of its own, which in a plain file goes over the word before
	}
	if got := c.Controllers(); !reflect.DeepEqual(got, []string{"cpu", "io", "memory", "pids"}) {
		t.Errorf("%v", got)
	}
}

// processTable makes a /proc with these two files.
func processTable(t *testing.T, groups, mounts string) string {
	folder := t.TempDir()
	fill(t, folder, map[string]string{"self/cgroup": groups, "self/mountinfo": mounts})
	return folder
}

// The agent's cell is made in the right place on each kind of machine.
func TestWhereCellsStand(t *testing.T) {
	top := t.TempDir()
	const hybridMounts = "30 20 0:25 / TOP/cpu rw - cgroup none rw,cpu,cpuacct\n31 20 0:26 / TOP/memory rw - cgroup none rw,memory\n" +
		"32 20 0:27 / TOP/pids rw - cgroup none rw,pids\n33 20 0:28 / TOP/blk\\040io rw - cgroup none rw,blkio\n" +
		"34 20 0:29 / TOP/systemd rw - cgroup none rw,name=systemd\n35 20 0:30 / TOP/unified rw - cgroup2 none rw\n"
	const hybridGroups = "5:name=systemd:/a\n4:blkio:/\n3:pids:/\n2:memory:/box/1\n1:cpu,cpuacct:/\n0::/session\n"
	fill(t, top, map[string]string{"shared/user.slice/session-1.scope/cgroup.procs": "1\n2\n"})
	for _, test := range []struct {
		name, groups, mounts, controllers string
		grade                             Grade
		want                              Cell
		found                             bool
	}{
		{"hybrid", hybridGroups, hybridMounts, "", Hybrid, Cell{
			Grade: Hybrid, Unified: "TOP/unified/session", CPU: "TOP/cpu", Memory: "TOP/memory/box/1", Pids: "TOP/pids", IO: "TOP/blk io"}, true},
		{"version 1 of the same", hybridGroups, hybridMounts, "", Cgroup1, Cell{
			Grade: Cgroup1, CPU: "TOP/cpu", Account: "TOP/cpu", Memory: "TOP/memory/box/1", Pids: "TOP/pids", IO: "TOP/blk io"}, true},
		{"its version 2 has no controllers", hybridGroups, hybridMounts, "session:", Cgroup2, Cell{}, false},
		{"a service", "0::/system.slice/tender-agent.service\n", "30 20 0:25 / TOP/all rw - cgroup2 none rw\n",
			"all/system.slice/tender-agent.service:cpuset cpu io memory pids", Cgroup2, Cell{
				Grade: Cgroup2, Unified: "TOP/all/system.slice/tender-agent.service", CPU: "TOP/all/system.slice/tender-agent.service",
				Memory: "TOP/all/system.slice/tender-agent.service", Pids: "TOP/all/system.slice/tender-agent.service",
				IO: "TOP/all/system.slice/tender-agent.service"}, true},
		{"a service in a group of its own", "0::/tender.service/agent\n", "30 20 0:25 / TOP/all rw - cgroup2 none rw\n",
			"all/tender.service:memory pids", Cgroup2, Cell{
				Grade: Cgroup2, Unified: "TOP/all/tender.service", Memory: "TOP/all/tender.service", Pids: "TOP/all/tender.service"}, true},
		{"a session with others in it", "0::/user.slice/session-1.scope\n", "30 20 0:25 / TOP/shared rw - cgroup2 none rw\n",
			"shared:memory pids", Cgroup2, Cell{Grade: Cgroup2, Unified: "TOP/shared", Memory: "TOP/shared", Pids: "TOP/shared"}, true},
		{"a container that is shown its part", "2:memory:/docker/abc/in\n", "31 20 0:26 /docker/abc TOP/memory rw - cgroup none rw,memory\n", "",
			Cgroup1, Cell{Grade: Cgroup1, Memory: "TOP/memory/in"}, true},
		{"a container that is shown another part", "2:memory:/docker/abc\n", "31 20 0:26 /../.. TOP/memory rw - cgroup none rw,memory\n", "",
			Cgroup1, Cell{Grade: Cgroup1, Memory: "TOP/memory"}, true},
		{"nothing", "", "1 1 0:1 / / rw - ext4 /dev/sda rw\n", "", Cgroup1, Cell{Grade: Cgroup1}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if path, controllers, named := strings.Cut(test.controllers, ":"); named {
				fill(t, filepath.Join(top, path), map[string]string{"cgroup.controllers": controllers + "\n"})
			}
			hierarchies, err := readHierarchies(processTable(t, test.groups, strings.ReplaceAll(test.mounts, "TOP", top)))
			if err != nil {
				t.Fatal(err)
			}
			got, found := grow(test.grade, hierarchies)
			want := test.want.move(func(folder string) string { return strings.Replace(folder, "TOP", top, 1) })
			if found != test.found || found && got != want {
				t.Errorf("%v\ngot  %+v\nwant %+v", found, got, want)
			}
		})
	}
}

// Where there are no control groups, or none that we may use, the tree says why, and the agent works without them.
func TestWithoutControlGroups(t *testing.T) {
	for _, test := range []struct{ name, proc, why string }{
		{"no such system", filepath.Join(t.TempDir(), "none"), "this system has no control groups"},
		{"nothing is mounted", processTable(t, "", ""), "no control groups are mounted"},
		{"they are not ours", processTable(t, "2:memory:/\n", "31 20 0:26 / /dev/null/memory rw - cgroup none rw,memory\n"),
			"the control groups of version 1 can't be used: "},
	} {
		tree := Open(Place{Folder: t.TempDir(), Proc: test.proc})
		if tree.Root.Grade != Groups || tree.Makes || !strings.HasPrefix(tree.Lacks, test.why) {
			t.Errorf("%s: %+v", test.name, tree)
		}
		if err := errors.Join(tree.Sweep(t.Context(), nil), tree.Close(), tree.Executor("f", "e").End(t.Context())); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if tree := Open(Place{Folder: t.TempDir(), Best: Groups}); tree.Root.Grade != Groups || tree.Makes || tree.Lacks == "" {
		t.Errorf("not asked for: %+v", tree)
	}
}

// An allowance is the lowest of the limits of the groups around us.
func TestAllowance(t *testing.T) {
	for _, test := range []struct {
		name, groups, mounts string
		files                map[string]string
		want                 Allowance
	}{
		{"version 1", "2:memory:/box/1\n1:cpu,cpuacct:/box\n",
			"30 20 0:25 / TOP/cpu rw - cgroup none rw,cpu,cpuacct\n31 20 0:26 / TOP/memory rw - cgroup none rw,memory\n",
			map[string]string{
				"cpu/box/cpu.cfs_quota_us": "250000\n", "cpu/box/cpu.cfs_period_us": "100000\n", "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n",
				"memory/box/1/memory.limit_in_bytes": "9223372036854771712\n", "memory/box/memory.limit_in_bytes": "1073741824\n",
				"memory/memory.limit_in_bytes": "9223372036854771712\n",
			}, Allowance{CPUs: 2500, Memory: 1 << 30}},
		{"version 2, nested", "0::/a/b/c\n", "30 20 0:25 / TOP/all rw - cgroup2 none rw\n",
			map[string]string{
				"all/a/cpu.max": "150000 100000\n", "all/a/b/cpu.max": "max 100000\n", "all/a/b/c/cpu.max": "400000 100000\n",
				"all/a/memory.max": "max\n", "all/a/b/memory.max": "536870912\n", "all/a/b/c/memory.max": "4294967296\n",
			}, Allowance{CPUs: 1500, Memory: 512 << 20}},
		{"less than a core", "0::/a\n", "30 20 0:25 / TOP/small rw - cgroup2 none rw\n",
			map[string]string{"small/a/cpu.max": "10000 100000\n", "small/a/memory.max": "max\n"}, Allowance{CPUs: 100}},
		{"no limits", "0::/\n", "30 20 0:25 / TOP/free rw - cgroup2 none rw\n", nil, Allowance{}},
		{"damaged", "0::/a\n", "30 20 0:25 / TOP/bad rw - cgroup2 none rw\n",
			map[string]string{"bad/a/cpu.max": "lots 0\n", "bad/a/memory.max": "12 apples\n"}, Allowance{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := t.TempDir()
			fill(t, top, test.files)
			if got := ReadAllowance(processTable(t, test.groups, strings.ReplaceAll(test.mounts, "TOP", top))); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
	if got := ReadAllowance(t.TempDir()); got != (Allowance{}) {
		t.Errorf("of no system: %+v", got)
	}
}
