package jobfile

import (
	_ "embed"
	"reflect"
	"strings"

	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/internal/rules"
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

// WrongZero says what is wrong with a zero that is written for this field, and what would be right; "": it means what it
// says.
func (f Field) WrongZero() string {
	of, rule := reflect.TypeFor[jobs.Job](), rules.Rule{}
	for name := range strings.SplitSeq(f.Name, ".") {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		_, known := rules.Fields(of)
		of, rule = known[name].Type, rules.Of(known[name])
	}
	return rule.Wrong(reflect.Zero(of))
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
