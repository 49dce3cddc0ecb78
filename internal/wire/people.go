package wire

import (
	"maps"
	"math"
	"net"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// ResourcesStruct returns a bundle in the form for people and programs:
// {"cpus":4,"mem":1024,"ports":"[31000-31009]","disk(eng)":100}.
func ResourcesStruct(resources api.Resources) *structpb.Struct {
	items := resources.Items()
	shown := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(items))}
	for i := range items {
		item := &items[i]
		switch name := clean(item.Label.String()); {
		case len(item.Ranges) > 0:
			shown.Fields[name] = structpb.NewStringValue(item.Ranges.String())
		case len(item.Set) > 0:
			shown.Fields[name] = structpb.NewStringValue(clean(item.Set.String()))
		default:
			shown.Fields[name] = structpb.NewNumberValue(item.Scalar.Float())
		}
	}
	return shown
}

// AppendResources appends a field that has the result of ResourcesStruct, encoded.
func AppendResources(to []byte, field protowire.Number, resources api.Resources) []byte {
	const structFields, entryKey, entryValue, valueNumber, valueString protowire.Number = 1, 1, 2, 2, 3
	var fields, value, entry []byte
	items := resources.Items()
	for i := range items {
		item := &items[i]
		switch value = value[:0]; {
		case len(item.Ranges) > 0:
			value = protowire.AppendString(protowire.AppendTag(value, valueString, protowire.BytesType), item.Ranges.String())
		case len(item.Set) > 0:
			value = protowire.AppendString(protowire.AppendTag(value, valueString, protowire.BytesType), clean(item.Set.String()))
		default:
			value = protowire.AppendFixed64(protowire.AppendTag(value, valueNumber, protowire.Fixed64Type), math.Float64bits(item.Scalar.Float()))
		}
		entry = appendText(entry[:0], entryKey, item.Label.String())
		entry = protowire.AppendBytes(protowire.AppendTag(entry, entryValue, protowire.BytesType), value)
		fields = protowire.AppendBytes(protowire.AppendTag(fields, structFields, protowire.BytesType), entry)
	}
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), fields)
}

// usual are the kinds of resources that people are shown first, in this order.
var usual = []string{"cpus", "mem", "disk", "gpus", "ports"}

// ResourceNames returns the names of the result of ResourcesStruct in the order for people: the usual kinds first, then by
// name.
func ResourceNames(shown *structpb.Struct) []string {
	rank := func(name string) int {
		kind, _, _ := strings.Cut(name, "(")
		if i := slices.Index(usual, kind); i >= 0 {
			return i
		}
		return len(usual)
	}
	names := slices.Sorted(maps.Keys(shown.GetFields()))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

// ResourcesText converts the result of ResourcesStruct to the notation of api.Resources.String, for tables. It is "" if
// there is nothing.
func ResourcesText(shown *structpb.Struct) string {
	fields := shown.GetFields()
	parts := make([]string, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name].GetKind().(type) {
		case *structpb.Value_NumberValue:
			parts = append(parts, name+":"+api.MilliOf(value.NumberValue).String())
		case *structpb.Value_StringValue:
			parts = append(parts, name+":"+value.StringValue)
		}
	}
	return strings.Join(parts, ";")
}

// ResourcesFromStruct reads the result of ResourcesStruct.
func ResourcesFromStruct(shown *structpb.Struct) (api.Resources, error) {
	resources, err := api.ParseResources(ResourcesText(shown))
	if err != nil {
		return api.Resources{}, api.E("wire.resources", api.Invalid, "", err)
	}
	return resources, nil
}

// Endpoint is a named port of a task, with the host at which its agent says it can be reached.
type Endpoint struct {
	Host   string // a name or an address
	Port   string // its name
	Number uint16
}

// ReadyEndpoints returns the ports of a task, sorted by name, if it is running and not known to be unhealthy. `tender
// get endpoints` and DNS both use it.
func ReadyEndpoints(task *apiv1.TaskView) (endpoints []Endpoint) {
	if task.GetState() != api.TaskRunning.String() || task.Healthy != nil && !task.GetHealthy() {
		return nil
	}
	host, _, err := net.SplitHostPort(task.GetAgentAddress())
	if err != nil || host == "" {
		host = task.GetHostname()
	}
	for _, port := range slices.Sorted(maps.Keys(task.GetPorts())) {
		endpoints = append(endpoints, Endpoint{Host: host, Port: port, Number: uint16(task.GetPorts()[port])})
	}
	return endpoints
}
