// Command tender is Tender, whole: masters, agents, and all that people type.
package main

import "github.com/tenderhq/tender/tender"

func main() { tender.Main() }
