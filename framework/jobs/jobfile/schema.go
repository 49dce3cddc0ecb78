package jobfile

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"

	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/internal/rules"
)

// Schema returns the JSON Schema of job files. It is made from the types and the rules that read these files, and from
// the table of fields for people, so that editors refuse what the reader refuses, and say what a field means. What a
// schema can't say, such as that a port is one of the task's, only the reader refuses.
func Schema() ([]byte, error) {
	schema := schemaOf(reflect.TypeFor[jobs.Job](), "")
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "A job of Tender"
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

// The forms of texts.
const (
	durationPattern = `^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	positivePattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	nothingPattern  = `^[^1-9]*$` // a time without any digit but zero
	namePattern     = `^[A-Za-z0-9_-]{1,63}$`
	rolePattern     = `^[^-/*\s\[\](){}:;,=\\][^/*\s\[\](){}:;,=\\]*(/[^-/*\s\[\](){}:;,=\\][^/*\s\[\](){}:;,=\\]*)*$`
	sourcePattern   = `^(/|file:///|https?://)`
	remotePattern   = `^https?://`
)

var durationForm = regexp.MustCompile(durationPattern)

type object = map[string]any

func schemaOf(of reflect.Type, field string) object {
	switch {
	case of.Kind() == reflect.Pointer:
		return schemaOf(of.Elem(), field)
	case of == durationType:
		return object{"type": "string", "pattern": durationPattern}
	case of == matchType:
		texts := object{"anyOf": []object{{"type": "string"}, {"type": "array", "minItems": 1, "items": object{"type": "string"}}}}
		return object{"anyOf": []object{texts, {"type": "object", "properties": object{"not": texts}, "required": []string{"not"}, "additionalProperties": false}}}
	case of.Kind() == reflect.Struct:
		return structSchema(of, field)
	case of.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(of.Elem(), field)}
	case of.Kind() == reflect.Slice:
		return object{"type": "array", "items": schemaOf(of.Elem(), field)}
	}
	return object{"type": plainTypes[of.Kind()]}
}

var plainTypes = map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number"}

// structSchema returns the schema of a table of fields.
func structSchema(of reflect.Type, field string) object {
	properties, required := object{}, []string{}
	names, known := rules.Fields(of)
	for _, name := range names {
		where := below(field, name)
		property, rule := schemaOf(known[name].Type, where), rules.Of(known[name])
		restrict(property, rule)
		if said := meaningOf(where); said != "" {
			property["description"] = said
		}
		if rule.Required {
			required = append(required, name)
		}
		properties[name] = property
	}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false}
	for _, name := range names {
		if rule := rules.Of(known[name]); rule.Needs != "" {
			needs(schema, name, rule, known[rule.Needs].Type)
		}
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	if field == "" {
		properties[schemaKey] = object{"type": "string", "description": "the schema of the file, for editors"}
	}
	if more := structRules[of]; more != nil {
		more(schema, properties)
	}
	return schema
}

// restrict adds what a rule says.
func restrict(schema object, rule rules.Rule) {
	switch {
	case rule.Number != nil && schema["type"] == "object": // of each of its values
		restrict(schema["additionalProperties"].(object), rule)
	case rule.Number != nil && rule.Number.Zero:
		schema["anyOf"] = []object{{"const": 0}, {"minimum": rule.Number.Least, "maximum": rule.Number.Most}}
	case rule.Number != nil:
		schema["minimum"], schema["maximum"] = rule.Number.Least, rule.Number.Most
	case rule.Positive:
		schema["pattern"], schema["not"] = positivePattern, object{"pattern": nothingPattern}
	case len(rule.Words) > 0:
		schema["enum"] = rule.Words
	case rule.Name:
		schema["pattern"] = namePattern
	case schema["type"] == "string" && schema["pattern"] == nil:
		schema["minLength"] = 1
	}
	if rule.ItemsMax > 0 {
		schema["maxItems"] = rule.ItemsMax
	}
}

// needs adds that a field says nothing without another one.
func needs(schema object, name string, rule rules.Rule, other reflect.Type) {
	said, there := object{}, object{}
	switch {
	case len(rule.Words) > 0:
		said["enum"] = rule.Words[1:]
	case rule.Number != nil:
		said["exclusiveMinimum"] = 0
	}
	switch other.Kind() {
	case reflect.Slice:
		there["minItems"] = 1
	case reflect.Int:
		there["exclusiveMinimum"] = 0
	}
	all, _ := schema["allOf"].([]object)
	schema["allOf"] = append(all, object{
		"if":   object{"required": []string{name}, "properties": object{name: said}},
		"then": object{"required": []string{rule.Needs}, "properties": object{rule.Needs: there}},
	})
}

// structRules say what holds between the fields of a table.
var structRules = map[reflect.Type]func(schema, properties object){
	reflect.TypeFor[jobs.Job]():    jobRules,
	reflect.TypeFor[jobs.Task]():   taskRules,
	reflect.TypeFor[jobs.Check]():  func(schema, _ object) { schema["oneOf"] = oneOf("command", "http", "tcp", "grpc") },
	reflect.TypeFor[jobs.Secret](): secretRules,
	reflect.TypeFor[jobs.File]():   fileRules,
	reflect.TypeFor[jobs.HTTPCheck](): func(_, properties object) {
		properties["path"].(object)["pattern"] = `^/[^\x00-\x20\x7f]*$`
	},
}

// oneOf wants exactly one of the fields.
func oneOf(names ...string) (choices []object) {
	for _, name := range names {
		choices = append(choices, object{"required": []string{name}})
	}
	return choices
}

// jobRules: each section belongs to one type of job.
func jobRules(schema, properties object) {
	properties["role"].(object)["pattern"] = rolePattern
	sections := object{}
	for _, kind := range jobs.Types() {
		section := string(kind)
		if kind == jobs.DAGType {
			section = "steps"
		}
		sections[section] = object{"properties": object{"type": object{"const": string(kind)}}}
	}
	schema["dependentSchemas"] = sections
	is := func(kinds ...jobs.Type) object {
		return object{"properties": object{"type": object{"enum": kinds}}}
	}
	without := func(names ...string) object {
		none := object{}
		for _, name := range names {
			none[name] = false
		}
		return object{"properties": object{"task": object{"properties": none}}}
	}
	schema["allOf"] = []object{
		{"if": is(jobs.DAGType), "then": object{"required": []string{"steps"}, "properties": object{"task": false, "steps": object{"minItems": 1}}},
			"else": object{"required": []string{"task"}}},
		{"if": is(jobs.CronType), "then": object{"required": []string{"cron"}}},
		{"if": is(jobs.GangType), "then": object{"required": []string{"gang"}}},
		{"if": is(jobs.ServiceType, jobs.SystemType), "then": without("timeout")},
		{"if": is(jobs.SystemType), "then": without("spread", "most")},
	}
}

func taskRules(schema, properties object) {
	schema["anyOf"] = []object{
		{"required": []string{"command"}},
		{"required": []string{"argv"}, "properties": object{"argv": object{"minItems": 1}}},
		{"required": []string{"image"}},
	}
	schema["not"] = object{"required": []string{"command", "argv"}}
	further := properties["resources"].(object)
	further["propertyNames"] = object{"not": object{"enum": []string{"cpus", "mem", "disk", "gpus", "ports"}}}
	properties["env"].(object)["propertyNames"] = object{"pattern": "^[^=]+$", "not": object{"pattern": "^TENDER_"}}
	ports := properties["ports"].(object)
	ports["uniqueItems"], ports["items"].(object)["pattern"] = true, namePattern
	properties["spread"].(object)["pattern"] = "^(agent|zone|region|attribute:.+)$"
	properties["gpus"].(object)["multipleOf"] = 1
}

func secretRules(schema, properties object) {
	schema["oneOf"] = oneOf("env", "file")
	properties["id"].(object)["pattern"] = "^[^/]+(/[^/]+)+$"
	properties["env"].(object)["pattern"], properties["env"].(object)["not"] = "^[^=]+$", object{"pattern": "^TENDER_"}
	properties["file"].(object)["pattern"] = "^[^/]+$"
}

func fileRules(schema, properties object) {
	properties["source"].(object)["pattern"] = sourcePattern
	properties["sha256"].(object)["pattern"] = "^[0-9a-f]{64}$"
	properties["name"].(object)["pattern"] = "^[^/]+$"
	schema["if"] = object{"properties": object{"source": object{"pattern": remotePattern}}}
	schema["then"] = object{"required": []string{"sha256"}}
}

// meaningOf returns what the table of fields says about a field: what it means, and its default. The fields of a step
// and of a run of a cron job that a batch has too are described there.
func meaningOf(field string) string {
	field = strings.TrimPrefix(field, "steps.")
	for _, row := range Fields() {
		if row.Name == field {
			if row.Default == "" {
				return row.Meaning
			}
			return row.Meaning + " (default: " + row.Default + ")"
		}
	}
	return ""
}
