package words

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Pairs writes text such as "a=1, b=2", sorted by name.
func Pairs[Value any](pairs map[string]Value) string {
	parts := make([]string, 0, len(pairs))
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		parts = append(parts, fmt.Sprintf("%s=%v", key, pairs[key]))
	}
	return strings.Join(parts, ", ")
}
