// Command custom-allocator is Tender with an additional policy beside the built-in ones:
//
//	go run ./examples/custom-allocator dev --allocator first
package main

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/tender"
)

func main() {
	allocator.Register("first", newFirst)
	tender.Main()
}
