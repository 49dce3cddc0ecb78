package constraint_test

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/allocator/constraint"
)

var agent = constraint.Agent{
	Attributes: map[string]string{"rack": "r1", "kernel": "10", "disk type": "ssd", "empty": ""},
	Hostname:   "gpu-7.example.com", Region: "eu", Zone: "eu-1", ID: "agent-3", Role: "eng/web",
}

// Every constraint of Mesos can be said, and more.
func TestHolds(t *testing.T) {
	for expr, want := range map[string]bool{
		// EXISTS, NOT_EXISTS
		`"rack" in attributes`:      true,
		`has(attributes.rack)`:      true,
		`!("row" in attributes)`:    true,
		`"row" in attributes`:       false,
		`"disk type" in attributes`: true,
		// TEXT_EQUALS, TEXT_NOT_EQUALS: in Mesos the latter is true of an agent without the attribute
		`attributes["rack"] == "r1"`:                         true,
		`attributes["rack"] == "r2"`:                         false,
		`attributes["rack"] != "r2"`:                         true,
		`attributes[?"row"].orValue("") != "7"`:              true,
		`!("row" in attributes) || attributes["row"] != "7"`: true,
		// TEXT_MATCHES, TEXT_NOT_MATCHES
		`attributes["rack"].matches("^r[0-9]$")`:               true,
		`!attributes["rack"].matches("^x")`:                    true,
		`hostname.matches("^gpu-[0-9]+\\.") && region == "eu"`: true,
		// pseudo attributes and more than Mesos
		`zone == "eu-1"`:                   true,
		`id in ["agent-1", "agent-3"]`:     true,
		`role.startsWith("eng/")`:          true,
		`number(attributes["kernel"]) > 9`: true,
		`attributes["kernel"] > "9"`:       false,
		`number(attributes["kernel"]) >= 10.0 && number(attributes["kernel"]) < 11`: true,
		`true`:  true,
		`false`: false,
		`attributes.exists(name, name.startsWith("ra") && attributes[name] == "r1")`: true,
	} {
		program, err := constraint.Compile(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		got, err := program.Holds(agent)
		if err != nil || got != want {
			t.Errorf("%s: got %v (%v), want %v", expr, got, err, want)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for expr, want := range map[string]string{
		``:                                       "is empty",
		`attributes["rack"]`:                     "must be true or false",
		`attributes["cpus"] > 4`:                 "number(attributes",
		`rack == "r1"`:                           "variables are attributes, hostname, region, zone, id, role",
		`attributes["rack"] = "r1"`:              "write, for example",
		`(((`:                                    "write, for example",
		strings.Repeat("true && ", 900) + "true": "at most 4096",
		strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500): "recursion",
	} {
		_, err := constraint.Compile(expr)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q in it", expr, err, want)
		}
	}
}

func TestHoldsSaysWhyNot(t *testing.T) {
	for expr, want := range map[string]string{
		`attributes["row"] == "1"`:       "row",
		`number(attributes["rack"]) > 1`: "not a number",
		`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, a+b+c+d > 0))))`: "cost",
	} {
		program, err := constraint.Compile(expr)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		holds, err := program.Holds(agent)
		if holds || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v; want an error with %q", expr, holds, err, want)
		}
	}
}

func TestUses(t *testing.T) {
	program, err := constraint.Compile(`attributes["id"] == "1" && zone == "z"`)
	if err != nil {
		t.Fatal(err)
	}
	if program.Uses("id") || program.Uses("hostname") || !program.Uses("zone") || !program.Uses("attributes") {
		t.Error("uses zone and attributes only")
	}
}
