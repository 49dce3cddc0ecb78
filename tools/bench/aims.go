package main

import "fmt"

// aim is what this project has set itself as a ratio or a size, and what this run has seen of it.
type aim struct {
	what        string
	seen, limit float64
	least       bool // the limit is the least; else the most
}

// aims are those of which this run has seen something.
var aims []aim

func atMost(what string, seen, limit float64)  { aims = append(aims, aim{what, seen, limit, false}) }
func atLeast(what string, seen, limit float64) { aims = append(aims, aim{what, seen, limit, true}) }

// showAims prints which aims are met.
func showAims() {
	if len(aims) == 0 {
		return
	}
	fmt.Println("\n| aim | seen | met |")
	fmt.Println("|---|---|---|")
	for _, a := range aims {
		limit, met := "at most", a.seen <= a.limit
		if a.least {
			limit, met = "at least", a.seen >= a.limit
		}
		word := "no"
		if met {
			word = "yes"
		}
		fmt.Printf("| %s: %s %.4g | %.3g | %s |\n", a.what, limit, a.limit, a.seen, word)
	}
}
