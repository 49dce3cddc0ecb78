// Package show turns the masters' answers into text for people: plain aligned tables, ages, amounts. The same input
// gives the same text; the clock is an argument.
package show

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/internal/wire"
)

// gap is the space between two columns.
const gap = 3

// Table writes rows below a header, each column as wide as its widest cell. An empty cell is shown as "-".
func Table(w io.Writer, header []string, rows [][]string) error {
	var text strings.Builder
	if err := new(Growing).Begin(&text, header, rows); err != nil {
		return err
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// Growing is a table to which rows are added as they come. Its columns become wider when a cell needs it.
type Growing struct{ widths []int }

// Begin writes the header and the first rows. A table that is written again keeps the widths of its columns.
func (g *Growing) Begin(w io.Writer, header []string, rows [][]string) error {
	if len(g.widths) != len(header) {
		g.widths = make([]int, len(header))
	}
	all := slices.Concat([][]string{header}, rows)
	for _, row := range all {
		g.fit(row)
	}
	for _, row := range all {
		if err := g.Row(w, row); err != nil {
			return err
		}
	}
	return nil
}

func (g *Growing) fit(row []string) {
	for i, cell := range row {
		g.widths[i] = max(g.widths[i], utf8.RuneCountInString(orDash(cell)))
	}
}

// Row writes one more row.
func (g *Growing) Row(w io.Writer, row []string) error {
	g.fit(row)
	var line strings.Builder
	for i, cell := range row {
		cell = orDash(cell)
		line.WriteString(cell)
		line.WriteString(strings.Repeat(" ", g.widths[i]-utf8.RuneCountInString(cell)+gap))
	}
	_, err := io.WriteString(w, strings.TrimRight(line.String(), " ")+"\n")
	return err
}

// BesideCode returns what the message of a task's end says beside its exit code, which is shown too.
func BesideCode(message string, code int) string {
	return strings.TrimPrefix(strings.TrimPrefix(message, fmt.Sprintf("exited with %d", code)), "; ")
}

// orDash makes a cell visible and safe: on one line, without control characters, and "-" if it is empty.
func orDash(cell string) string {
	cell = strings.TrimSpace(Clean(cell))
	if cell == "" {
		return "-"
	}
	return cell
}

// Clean replaces control characters, so that no name or message can move a terminal's cursor.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

// Fields writes "Name:  value" lines with aligned values; those without a value are left out.
func Fields(w io.Writer, fields [][2]string) error {
	width := 0
	for _, field := range fields {
		if field[1] != "" {
			width = max(width, utf8.RuneCountInString(field[0]))
		}
	}
	var text strings.Builder
	for _, field := range fields {
		if field[1] == "" {
			continue
		}
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(field[0])+2)
		lines := strings.Split(field[1], "\n")
		fmt.Fprintf(&text, "%s:%s%s\n", field[0], pad, Clean(lines[0]))
		for _, line := range lines[1:] {
			fmt.Fprintf(&text, "%s%s\n", strings.Repeat(" ", width+3), Clean(line))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// Age returns how long ago a time was: "12s", "3m", "5h", "9d"; "" for none.
func Age(now time.Time, at *timestamppb.Timestamp) string {
	if at == nil || at.AsTime().Unix() <= 0 {
		return ""
	}
	return Span(now.Sub(at.AsTime()))
}

// Span returns a duration in its largest fitting unit. A negative one is shown as 0s.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// Resources returns text such as "cpus 4, mem 4096": the well-known kinds first, then by name.
func Resources(resources *structpb.Struct) string {
	names := wire.ResourceNames(resources)
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = name + " " + amount(resources.GetFields()[name])
	}
	return strings.Join(parts, ", ")
}

func amount(value *structpb.Value) string {
	if text, ok := value.GetKind().(*structpb.Value_StringValue); ok {
		return text.StringValue
	}
	return strconv.FormatFloat(value.GetNumberValue(), 'f', -1, 64)
}

// Percent returns a share of 1 as "33.3%".
func Percent(share float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(100*share, 'f', 1, 64), ".0") + "%"
}
