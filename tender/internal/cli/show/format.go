package show

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// The formats. AsTable and AsWide are for lists, AsText is for single things.
const (
	AsTable = "table"
	AsWide  = "wide" // a table with more columns
	AsText  = "text"
	AsJSON  = "json"
	AsCSV   = "csv"
	AsName  = "name" // one name on each line
)

// Format is the format in which a command writes its result. It is the value of the flag --output of every command.
type Format struct {
	chosen string
	known  []string
}

// FormatFlag adds the flag to a command that can write these formats; the first one is its default.
func FormatFlag(flags *pflag.FlagSet, known ...string) *Format {
	f := &Format{chosen: known[0], known: known}
	last := len(known) - 1
	flags.VarP(f, "output", "o", strings.Join(known[:last], ", ")+" or "+known[last])
	return f
}

// Is says whether the format was chosen.
func (f *Format) Is(name string) bool { return f.chosen == name }

// String returns the chosen format.
func (f *Format) String() string { return f.chosen }

// Type returns what the help calls a value of the flag.
func (f *Format) Type() string { return "format" }

// Set chooses a format that the command can write.
func (f *Format) Set(name string) error {
	if !slices.Contains(f.known, name) {
		return settings.Unknown("format", name, f.known)
	}
	f.chosen = name
	return nil
}
