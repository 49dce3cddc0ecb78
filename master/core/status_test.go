package core

import (
	"reflect"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestAStatusIsKept: whatever a status says, the latest one of its task says the same, also where that differs from what
// the task knows; and what the task knows is not kept with it.
func TestAStatusIsKept(t *testing.T) {
	one := &task{
		ref: api.TaskRef{Framework: "f1", Task: "t1"}, task: &api.Task{}, agent: &agent{id: "a1"}, launch: api.LaunchID{Number: 7},
	}
	plain := api.Status{Framework: "f1", Task: "t1", Agent: "a1", Executor: api.CommandExecutor, Launch: api.LaunchID{Number: 7}, State: api.TaskRunning, Number: 2}
	one.become(plain)
	if one.status.whole != nil || !reflect.DeepEqual(one.latest(), plain) {
		t.Errorf("%+v is kept whole, or as %+v", plain, one.latest())
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[api.Status]()) {
		if field.Anonymous {
			continue
		}
		said := plain
		of := reflect.ValueOf(&said).Elem().FieldByIndex(field.Index)
		of.Set(another(of))
		one.become(said)
		if got := one.latest(); !reflect.DeepEqual(got, said) {
			t.Errorf("%s: %+v is kept as %+v", field.Name, said, got)
		}
	}
}

// another returns a value that is neither zero nor the same.
func another(than reflect.Value) reflect.Value {
	value := reflect.New(than.Type()).Elem()
	switch than.Kind() {
	case reflect.String:
		value.SetString(than.String() + "!")
	case reflect.Int, reflect.Int8, reflect.Int32, reflect.Int64:
		value.SetInt(than.Int() + 1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		value.SetUint(than.Uint() + 1)
	case reflect.Pointer:
		value.Set(reflect.New(than.Type().Elem()))
	case reflect.Slice:
		value.Set(reflect.MakeSlice(than.Type(), 1, 1))
	case reflect.Map:
		value.Set(reflect.MakeMap(than.Type()))
	case reflect.Struct: // a time, or the number of a launch
		for i := range than.NumField() {
			if value.Field(i).CanSet() && than.Field(i).Kind() == reflect.Uint64 {
				value.Field(i).SetUint(than.Field(i).Uint() + 1)
			}
		}
	default:
		panic("no value of " + than.Type().String())
	}
	return value
}
