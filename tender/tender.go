// Package tender is for a program of your own that is Tender with something added: it registers its addition, such as
// an allocator, and calls Main. The package has nothing else; each kind of addition has its own package.
//
//	func main() {
//		allocator.Register("mine", newMine)
//		tender.Main()
//	}
package tender

import "github.com/tenderhq/tender/tender/internal/cli"

// Main is the tender command with all its commands. It reads the program's arguments
// and environment, and ends the process.
func Main() { cli.Main() }
