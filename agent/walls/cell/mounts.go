package cell

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/agent/proc"
)

// hierarchy is a mounted hierarchy of control groups, with the group of this process.
type hierarchy struct {
	version2    bool
	controllers []string // version 1: the controllers that it was mounted with
	part        string   // the group that the mount shows as its top; "/" in all but containers
	mount       string   // where that is mounted
	own         string   // the folder of our own group
}

// readHierarchies reads which hierarchies are mounted, and in which group of each this process is. table is /proc.
func readHierarchies(table string) ([]hierarchy, error) {
	groups, err := os.ReadFile(filepath.Join(table, "self", "cgroup"))
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile(filepath.Join(table, "self", "mountinfo"))
	if err != nil {
		return nil, err
	}
	var all []hierarchy
	for line := range strings.Lines(string(mounts)) {
		if h, is := parseMount(strings.TrimSuffix(line, "\n"), string(groups)); is {
			all = append(all, h)
		}
	}
	return all, nil
}

// parseMount reads a line of mountinfo, and reports whether it is the mount of a hierarchy that this process has a
// group in. (proc_pid_mountinfo(5))
func parseMount(line, groups string) (hierarchy, bool) {
	front, back, found := strings.Cut(line, " - ")
	fields, kind := strings.Fields(front), strings.Fields(back)
	if !found || len(fields) < 5 || len(kind) < 3 || kind[0] != "cgroup" && kind[0] != "cgroup2" {
		return hierarchy{}, false
	}
	h := hierarchy{version2: kind[0] == "cgroup2", part: proc.Unescape(fields[3]), mount: proc.Unescape(fields[4])}
	if !h.version2 {
		h.controllers = strings.Split(kind[2], ",")
	}
	for line := range strings.Lines(groups) {
		if own, is := h.groupIn(strings.TrimSuffix(line, "\n")); is {
			if h.own, is = h.folder(own); !is {
				h.own = h.mount
			}
			return h, true
		}
	}
	return hierarchy{}, false
}

// groupIn reads a line of /proc/PID/cgroup, and reports whether it says in which group of this hierarchy the process is.
// It is NUMBER:CONTROLLERS:PATH, and 0::PATH for version 2.
func (h hierarchy) groupIn(line string) (path string, is bool) {
	parts := strings.SplitN(line, ":", 3)
	switch {
	case len(parts) != 3:
		return "", false
	case h.version2:
		return parts[2], parts[0] == "0" && parts[1] == ""
	}
	return parts[2], parts[1] != "" && slices.ContainsFunc(strings.Split(parts[1], ","), h.has)
}

// folder returns the folder of a group. A mount may show only a part of the hierarchy, as in a container, without the
// group.
func (h hierarchy) folder(group string) (folder string, shown bool) {
	below, err := filepath.Rel(h.part, group)
	if err != nil || !filepath.IsLocal(below) || strings.HasPrefix(h.part, "/..") {
		return "", false
	}
	return filepath.Join(h.mount, below), true
}

// JoinFiles returns the files to which a process writes its number to be in the control groups of another one, as far
// as these are not this process's own.
func JoinFiles(pid int) (files []string, err error) {
	theirs, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	own, failed := os.ReadFile("/proc/self/cgroup")
	hierarchies, failedToo := readHierarchies("/proc")
	if err := errors.Join(err, failed, failedToo); err != nil {
		return nil, err
	}
	ours := strings.Split(string(own), "\n")
	for line := range strings.SplitSeq(strings.TrimSpace(string(theirs)), "\n") {
		if slices.Contains(ours, line) {
			continue
		}
		folder, shown := folderOf(line, hierarchies)
		if !shown {
			return nil, fmt.Errorf("the task is in the control group %s, which is not mounted here", line)
		}
		files = append(files, filepath.Join(folder, "cgroup.procs"))
	}
	return files, nil
}

// folderOf returns the folder of the group that a line of /proc/PID/cgroup names.
func folderOf(line string, hierarchies []hierarchy) (folder string, shown bool) {
	for _, h := range hierarchies {
		if group, is := h.groupIn(line); is {
			if folder, shown := h.folder(group); shown {
				return folder, true
			}
		}
	}
	return "", false
}

// has reports whether a hierarchy of version 1 has the controller.
func (h hierarchy) has(controller string) bool { return slices.Contains(h.controllers, controller) }

// above returns the folder of our own group and those of all groups around it, up to the top of the mount.
func (h hierarchy) above() (folders []string) {
	for folder := h.own; ; folder = filepath.Dir(folder) {
		folders = append(folders, folder)
		if folder == h.mount || len(folder) <= len(h.mount) {
			return folders
		}
	}
}
