package jobfile

import (
	"encoding/json"
	"reflect"

	"github.com/tenderhq/tender/framework/jobs"
)

// Schema returns the JSON Schema of job files. It is made from the types that read these files, so that editors refuse
// what the reader refuses.
func Schema() ([]byte, error) {
	schema := schemaOf(reflect.TypeFor[jobs.Job]())
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "A job of Tender"
	schema["required"] = []string{"name", "type"}
	properties, _ := schema["properties"].(map[string]any)
	properties["type"] = map[string]any{"enum": jobs.Types()}
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

// durationPattern matches, precisely enough for editors, what time.ParseDuration accepts.
const durationPattern = `^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

func schemaOf(of reflect.Type) map[string]any {
	switch {
	case of == durationType:
		return map[string]any{"type": "string", "pattern": durationPattern}
	case of.Kind() == reflect.Pointer:
		return schemaOf(of.Elem())
	case of.Kind() == reflect.Struct:
		properties := map[string]any{}
		names, known := fields(of)
		for _, name := range names {
			properties[name] = schemaOf(known[name].Type)
		}
		return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	case of.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(of.Elem())}
	case of.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(of.Elem())}
	}
	return map[string]any{"type": plainTypes[of.Kind()]}
}

var plainTypes = map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number"}
