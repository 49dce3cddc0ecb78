package jobfile

import (
	_ "embed"
	"strings"
)

//go:embed fields.txt
var fieldsText string

// Field is a field of job files as people read about it.
type Field struct {
	Name    string // with those that contain it: task.limits.cpus
	Meaning string
	Default string // "": it has none
	Flag    string // the flag of 'tender run' that says the same; "": none does
	Task    string // the field of [api.Task] that it becomes; "": none
}

// Fields returns all fields, in the order in which people read about them.
func Fields() (list []Field) {
	for line := range strings.Lines(fieldsText) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		list = append(list, Field{parts[0], parts[1], parts[2], parts[3], parts[4]})
	}
	return list
}

// FieldsTable returns the fields as a table in Markdown.
func FieldsTable() string {
	var text strings.Builder
	text.WriteString("| field | meaning | default | `tender run` | `api.Task` |\n|---|---|---|---|---|\n")
	code := func(word string) string {
		if word == "" {
			return ""
		}
		return "`" + word + "`"
	}
	for _, one := range Fields() {
		text.WriteString("| " + strings.Join([]string{code(one.Name), one.Meaning, one.Default, code(one.Flag), code(one.Task)}, " | ") + " |\n")
	}
	return text.String()
}
