package show

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tenderhq/tender/internal/cli/settings"
)

// The formats. People read tables of lists, and texts of single things.
const (
	AsTable = "table"
	AsWide  = "wide" // a table with more columns
	AsText  = "text"
	AsJSON  = "json"
	AsName  = "name" // a name a line
)

// Format is how a command writes what it has found. It is the value of the flag --output, the same for every command.
type Format struct {
	chosen string
	known  []string
}

// FormatFlag adds the flag to a command that can write the formats that are named; the first is its default.
func FormatFlag(flags *pflag.FlagSet, known ...string) *Format {
	f := &Format{chosen: known[0], known: known}
	last := len(known) - 1
	flags.VarP(f, "output", "o", strings.Join(known[:last], ", ")+" or "+known[last])
	return f
}

// Is says whether the format was chosen.
func (f *Format) Is(name string) bool { return f.chosen == name }

// String is the chosen one.
func (f *Format) String() string { return f.chosen }

// Type is what the help calls a value of the flag.
func (f *Format) Type() string { return "format" }

// Set chooses one that the command can write.
func (f *Format) Set(name string) error {
	if !slices.Contains(f.known, name) {
		return settings.Unknown("format", name, f.known)
	}
	f.chosen = name
	return nil
}
