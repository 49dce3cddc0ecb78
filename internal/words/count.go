package words

import "fmt"

// Count writes a number with a noun whose plural ends in s: "1 task", "3 tasks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
