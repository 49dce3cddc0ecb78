package program

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// Tags are the build tags of the program, here and in the Makefile. With others, everything that depends on gRPC would
// be compiled once more.
const Tags = "grpcnotrace"

// module is the path of the program itself; its examples and tools are below it.
const module = "github.com/tenderhq/tender"

// Build builds programs into a folder, each under the last word of its name: "" is tender itself, "examples/hello" one
// of its examples.
func Build(folder string, names ...string) error {
	args := []string{"build", "-tags", Tags, "-o", folder + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, filepath.Join(module, name))
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("building %q: %w\n%s", names, err, out)
	}
	return nil
}
