package words

import (
	"fmt"
	"strings"
)

// Some names the first few of many: "a, b and 3 more", or all of them if there are no more than that.
func Some(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
