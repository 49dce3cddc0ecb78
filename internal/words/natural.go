package words

import "strings"

// CompareNatural orders names as people do: agent-2 comes before agent-10. Different names never compare as equal.
func CompareNatural(a, b string) int {
	for a != "" && b != "" {
		x, y := leadingDigits(a), leadingDigits(b)
		if x > 0 && y > 0 {
			if order := compareNumbers(a[:x], b[:y]); order != 0 {
				return order
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

func leadingDigits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// compareNumbers compares digits by their value. Of two equal values the one with fewer digits comes first, so that
// different names never compare as equal.
func compareNumbers(a, b string) int {
	x, y := strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	if order := strings.Compare(x, y); order != 0 {
		return order
	}
	return len(a) - len(b)
}
