package main

import "fmt"

// aim is what this project has set itself as a ratio or a size, and what this run has seen of it.
type aim struct {
	what        string
	seen, wants float64
	least       bool    // the aim is the least; else the most
	limit       float64 // the same of a loop that does only what has to be done; 0: there is none
}

// within is how much worse than its limit something may be that misses its aim: then the machine is what limits.
const within = 1.3

// aims are those of which this run has seen something.
var aims []aim

func atMost(what string, seen, wants float64)  { aims = append(aims, aim{what, seen, wants, false, 0}) }
func atLeast(what string, seen, wants float64) { aims = append(aims, aim{what, seen, wants, true, 0}) }

// limited says what the limit of the last aim is.
func limited(by float64) { aims[len(aims)-1].limit = by }

// behind returns how many times as bad as its limit it is.
func (a aim) behind() float64 {
	if a.least {
		return a.limit / a.seen
	}
	return a.seen / a.limit
}

func (a aim) isMet() bool {
	return a.least && a.seen >= a.wants || !a.least && a.seen <= a.wants || a.limit > 0 && a.behind() <= within
}

// showAims prints which aims are met, or within 1.3 of what has to be done.
func showAims() {
	if len(aims) == 0 {
		return
	}
	fmt.Println("\n| aim | seen | limit | behind it | met |")
	fmt.Println("|---|---|---|---|---|")
	for _, a := range aims {
		than, limit, word := "at most", " | ", "no"
		if a.least {
			than = "at least"
		}
		if a.limit > 0 {
			limit = fmt.Sprintf("%.3g | %.2f times", a.limit, a.behind())
		}
		if a.isMet() {
			word = "yes"
		}
		fmt.Printf("| %s: %s %.4g | %.3g | %s | %s |\n", a.what, than, a.wants, a.seen, limit, word)
	}
}
