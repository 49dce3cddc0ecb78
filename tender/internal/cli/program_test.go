package cli_test

import (
	"debug/elf"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/testing/program"
)

// TestProgramHasNoTemplates: the linker drops methods that nobody calls, unless something in the program calls methods
// by names that are known only at run time, as templates do. With these the program had 5 MB more, and each process
// touched 2 to 3 MB more of it. To find what has brought them in: go build -ldflags=-dumpdep 2>&1 | grep ReflectMethod.
func TestProgramHasNoTemplates(t *testing.T) {
	file, err := elf.Open(needsBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	}
	if !has("main.main") {
		t.Fatal("the program has no names of functions")
	}
	for _, caller := range []string{"text/template.(*state).evalField", "reflect.(*Value).MethodByName"} {
		if has(caller) {
			t.Errorf("the program has %s: the linker keeps every method of every type for it", caller)
		}
	}
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "-tags "+program.Tags+" -ldflags '$(STAMP)' -o bin/tender .") {
		t.Errorf("make build does not say %s", program.Tags)
	}
}
