package cell

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// hierarchy is a mounted hierarchy of control groups, with the group of this process.
type hierarchy struct {
	version2    bool
	controllers []string // version 1: the controllers that it was mounted with
	mount       string   // its root, as far as it is shown to us
	own         string   // the folder of our own group
}

// readHierarchies reads which hierarchies are mounted, and in which group of each this process is. proc is /proc.
func readHierarchies(proc string) ([]hierarchy, error) {
	groups, err := os.ReadFile(filepath.Join(proc, "self", "cgroup"))
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "self", "mountinfo"))
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
	h := hierarchy{version2: kind[0] == "cgroup2", mount: unescape(fields[4])}
	if !h.version2 {
		h.controllers = strings.Split(kind[2], ",")
	}
	own, found := ownGroup(h, groups)
	if !found {
		return hierarchy{}, false
	}
	h.own = h.mount
	// The mount may show only a part of the hierarchy, as in a container. If our own group is outside of that part, the
	// top of the mount is taken for it.
	part := unescape(fields[3])
	if below, err := filepath.Rel(part, own); err == nil && filepath.IsLocal(below) && !strings.HasPrefix(part, "/..") {
		h.own = filepath.Join(h.mount, below)
	}
	return h, true
}

// ownGroup finds the group of this process in the lines of /proc/self/cgroup. These are NUMBER:CONTROLLERS:PATH, and
// 0::PATH for version 2.
func ownGroup(h hierarchy, groups string) (path string, found bool) {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if h.version2 && parts[0] == "0" && parts[1] == "" {
			return parts[2], true
		}
		if !h.version2 && parts[1] != "" && slices.ContainsFunc(strings.Split(parts[1], ","), h.has) {
			return parts[2], true
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

// unescape replaces what the kernel writes for spaces and the like, which is a backslash and three octal digits.
func unescape(text string) string {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				plain.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		plain.WriteByte(text[i])
	}
	return plain.String()
}
