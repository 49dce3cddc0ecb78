package rights

import (
	"fmt"
	"strings"
)

// Markdown returns the table as it is in docs/security.md.
func Markdown() string {
	var text strings.Builder
	text.WriteString("| call | grant | or the action | without a grant | on | checked as well |\n|---|---|---|---|---|---|\n")
	for _, row := range Table {
		verb, action := string(row.Verb), row.Action
		if row.Or != None {
			verb += " or " + string(row.Or)
		}
		if row.Own {
			verb += ", or run for one's own"
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n",
			row.Call, orDash(verb), orDash(action), row.openTo(), row.On, orDash(row.Check))
	}
	return text.String()
}

// openTo returns who needs no grant.
func (r Row) openTo() string {
	names := make([]string, 0, len(r.Kinds)+1)
	for _, kind := range r.Kinds {
		if kind == Nobody {
			return "everybody"
		}
		names = append(names, string(kind))
	}
	if r.Ticket != "" {
		names = append(names, "a ticket to "+string(r.Ticket))
	}
	return orDash(strings.Join(names, ", "))
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}
