package words

import "strings"

// Closest returns the one of names that was probably meant by word; "" if none is close.
func Closest(word string, names []string) string {
	best, bestDistance := "", 1+max(1, len(word)/3)
	for _, name := range names {
		distance := distance(strings.ToLower(word), strings.ToLower(name))
		if begins(name, word) || begins(word, name) {
			distance = min(distance, 1)
		}
		if distance < bestDistance {
			best, bestDistance = name, distance
		}
	}
	return best
}

// begins reports whether word begins with start. A start of one letter does not count.
func begins(word, start string) bool {
	return len(start) >= 2 && strings.HasPrefix(strings.ToLower(word), strings.ToLower(start))
}

// distance counts the letters that must be inserted, deleted, changed or swapped with their neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			least := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				least = min(least, rows[i-2][j-2]+1)
			}
			rows[i][j] = least
		}
	}
	return rows[len(a)][len(b)]
}
