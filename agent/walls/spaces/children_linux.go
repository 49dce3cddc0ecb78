package spaces

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/agent/proc"
)

// oldestChild returns the process number of a helper's program, which is its oldest child: all others are orphans that
// the program, or what it started, has left to the helper. It returns helper itself while there is no child.
func oldestChild(helper int) int {
	threads := fmt.Sprintf("/proc/%d/task/", helper)
	lists, err := os.ReadDir(threads)
	if err != nil {
		return helper
	}
	oldest, since := helper, uint64(0)
	for _, list := range lists {
		children, err := os.ReadFile(threads + list.Name() + "/children")
		if err != nil {
			continue // the thread has ended
		}
		for word := range strings.FieldsSeq(string(children)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				continue
			}
			stat, err := proc.Read(pid)
			if err == nil && (since == 0 || stat.Start < since || stat.Start == since && pid < oldest) {
				oldest, since = pid, stat.Start
			}
		}
	}
	return oldest
}
