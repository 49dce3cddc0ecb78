package words

import "fmt"

// Count counts a noun that has a plain plural: "1 task", "3 tasks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
