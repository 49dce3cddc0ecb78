package proc

import "testing"

// A program can have any name.
func TestParse(t *testing.T) {
	const rest = " S 1 200 300 0 -1 4194560 100 0 0 0 7 8 9 10 20 0 1 0 4242 1000 3 18446744073709551615 1 1 0 0 0"
	for _, name := range []string{"(sh)", "(a b)", "(x) S 9 9 (y)", "()", "(\n)"} {
		stat, err := parse([]byte("123 " + name + rest))
		want := Stat{PID: 123, Parent: 1, Group: 200, Session: 300, Start: 4242, Ticks: 34, Resident: 3 * pageBytes}
		if err != nil || stat != want {
			t.Errorf("%q: %+v, %v", name, stat, err)
		}
	}
	for _, line := range []string{"", "1", "1 (", "1 (x) S", "(x) S 1 2"} {
		if _, err := parse([]byte(line)); err == nil {
			t.Errorf("%q was read", line)
		}
	}
}
