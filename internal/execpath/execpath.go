// Package execpath finds programs as the C library's execvp does, for somebody whose PATH and folder are not those of this
// process. It starts nothing.
package execpath

import (
	"os"
	"path/filepath"
	"strings"
)

// Of returns the PATH of an environment: the last one counts, as for the C library. "": it has none.
func Of(env []string) (path string) {
	for _, variable := range env {
		if value, is := strings.CutPrefix(variable, "PATH="); is {
			path = value
		}
	}
	return path
}

// Find returns the program that a name means to somebody in the folder; "": there is none. A name with a slash is returned
// as it is. Another one is looked for in the folders of path, of which those that are not absolute are below the folder.
func Find(name, path, folder string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for part := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(part) {
			part = filepath.Join(folder, part)
		}
		program := filepath.Join(part, name)
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return program
		}
	}
	return ""
}
