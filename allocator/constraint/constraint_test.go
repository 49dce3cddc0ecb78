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

// Every constraint of Mesos can be expressed, and more.
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

// TestKindsOfMesos has each kind of constraint of Mesos as docs/from-mesos.md translates it. It is tried on an agent in
// rack r1, one in rack x and one without a rack.
func TestKindsOfMesos(t *testing.T) {
	agents := []constraint.Agent{
		{Attributes: map[string]string{"rack": "r1", "kernel": "5.10"}, Hostname: "web-1", Region: "eu-west", Zone: "a", Role: "web"},
		{Attributes: map[string]string{"rack": "x", "kernel": "5.4"}, Hostname: "web-11", Region: "us", Zone: "b", Role: "web"},
		{Hostname: "db-1", Region: "us", Zone: "", Role: "db"},
	}
	for expr, want := range map[string][3]bool{
		`"rack" in attributes`:                                               {true, true, false},
		`!("rack" in attributes)`:                                            {false, false, true},
		`attributes[?"rack"].orValue("") == "r1"`:                            {true, false, false},
		`attributes[?"rack"].orValue("") != "r1"`:                            {false, true, true},
		`attributes[?"rack"].orValue("").matches("^(r[0-9]+)$")`:             {true, false, false},
		`!attributes[?"rack"].orValue("").matches("^(r[0-9]+)$")`:            {false, true, true},
		`hostname == "web-1"`:                                                {true, false, false},
		`hostname.matches("^(web-.*)$")`:                                     {true, true, false},
		`!region.matches("^(eu.*)$")`:                                        {false, true, true},
		`zone != "a"`:                                                        {false, true, true},
		`zone != ""`:                                                         {true, true, false}, // Exists ZONE
		`("rack" in attributes && zone == "b") || (!("rack" in attributes))`: {false, true, true},
		`role == "web" ? "rack" in attributes : hostname.startsWith("db")`:   {true, true, true},
		`"kernel" in attributes && number(attributes["kernel"]) >= 5.2`:      {false, true, false}, // 5.10 as a number is 5.1
	} {
		program, err := constraint.Compile(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		for i, agent := range agents {
			if got, err := program.Holds(agent); err != nil || got != want[i] {
				t.Errorf("%s of agent %d: got %v (%v), want %v", expr, i, got, err, want[i])
			}
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
		"region == \"eu\" &&\nrack == \"r1\"":    "at 2:1: undeclared reference to 'rack'",
		`(((`:                                    "write, for example",
		strings.Repeat("true && ", 900) + "true": "at most 4096",
		strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500): "recursion",
	} {
		_, err := constraint.Compile(expr)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q in it", expr, err, want)
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\n\t") || len(err.Error()) > 600) {
			t.Errorf("%.40q: an error is one line for people: %q", expr, err)
		}
		t.Log(err)
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
