package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs/internal/rules"
)

// Limits of jobs. A job beyond them is refused when it is submitted.
const (
	// NameBytesMax bounds the name of a job, a part of the IDs of its tasks.
	NameBytesMax = 63
	// JobBytesMax bounds a job as JSON, and each of its versions.
	JobBytesMax = 128 << 10
	// CompletionsMax bounds the completions of a batch.
	CompletionsMax = 100_000_000
	// TasksMax bounds the tasks of a job that run or wait at a time.
	TasksMax = 10_000
	// SpeculateMin and SpeculateMax bound Speculate.
	SpeculateMin = 1.1
	SpeculateMax = 1000
	// PriorityMax bounds priorities: from -PriorityMax to PriorityMax.
	PriorityMax = 1000
)

// Problem is one thing that is wrong with a job.
type Problem struct {
	Field string // "task.cpus"
	Why   string // what is wrong, and what would be right
}

func (p Problem) String() string { return p.Field + ": " + p.Why }

// Problems is everything that is wrong with a job, as an error.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

func (p *Problems) say(field, format string, values ...any) {
	*p = append(*p, Problem{field, fmt.Sprintf(format, values...)})
}

// Check returns everything that is wrong with the job, as [Problems], or nil.
func (j Job) Check() error {
	var found Problems
	if why := checkName(j.Name); why != nil {
		found.say("name", "%v", why)
	}
	if !slices.Contains(Types(), j.Type) {
		found.say("type", "%q is none; write one of %s", string(j.Type), typeNames())
		return found
	}
	for _, part := range []struct {
		field, verb string
		is          bool
		of          Type
	}{
		{"batch", "it belongs", j.Batch != nil, BatchType}, {"service", "it belongs", j.Service != nil, ServiceType}, {"cron", "it belongs", j.Cron != nil, CronType},
		{"system", "it belongs", j.System != nil, SystemType}, {"gang", "it belongs", j.Gang != nil, GangType}, {"steps", "they belong", len(j.Steps) > 0, DAGType},
	} {
		if part.is && j.Type != part.of {
			found.say(part.field, "%s to jobs of type %q, and this one's type is %q", part.verb, part.of, j.Type)
		}
	}
	if j.Role != "" {
		if err := j.Role.Check(); err != nil {
			found.say("role", "%v", err)
		}
	}
	found.checkRules("", reflect.ValueOf(j))
	j.checkType(&found)
	if j.Type != DAGType {
		j.Task.checkTask("task", j.Type == ServiceType || j.Type == SystemType, &found)
	}
	if text, err := json.Marshal(j); err == nil && len(text) > JobBytesMax {
		found.say("job", "it has %d bytes as JSON, at most %d are allowed; bring what is large by task.files", len(text), JobBytesMax)
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

// checkRules checks each field by the rule in its tag, if it is set, and the fields of the structs that it holds.
func (p *Problems) checkRules(field string, of reflect.Value) {
	names, members := rules.Fields(of.Type())
	for _, name := range names {
		value, rule := of.FieldByIndex(members[name].Index), rules.Of(members[name])
		if field != "" {
			name = field + "." + name
		}
		if why := rule.Wrong(value); why != "" && (!value.IsZero() || rule.Required && rule.Number != nil) {
			p.say(name, "%s", why)
		} else if why := rule.WrongAlone(value, of.FieldByIndex(members[rule.Needs].Index)); why != "" {
			p.say(name, "%s", why)
		}
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		switch {
		case value.Kind() == reflect.Map && rule.Number != nil:
			for _, key := range slices.Sorted(maps.Keys(value.Interface().(map[string]float64))) {
				if why := rule.Wrong(value.MapIndex(reflect.ValueOf(key))); why != "" {
					p.say(name+"."+key, "%s", why)
				}
			}
		case value.Kind() == reflect.Struct:
			p.checkRules(name, value)
		case value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Struct:
			for i := range value.Len() {
				p.checkRules(fmt.Sprintf("%s[%d]", name, i), value.Index(i))
			}
		}
	}
}

// isAbout says whether something was found that is wrong with the field, or below it.
func (p Problems) isAbout(field string) bool {
	return slices.ContainsFunc(p, func(problem Problem) bool { return strings.HasPrefix(problem.Field, field) })
}

func typeNames() string {
	var names []string
	for _, known := range Types() {
		names = append(names, string(known))
	}
	return strings.Join(names, ", ")
}

// checkType checks the fields that only some types of jobs have.
func (j Job) checkType(found *Problems) {
	full := j.WithDefaults()
	switch j.Type {
	case ServiceType:
		found.checkProgress("service", full.Rolling())
		if len(j.Task.Volumes) > 0 && *full.Service.Count > 1 {
			found.say("task.volumes", "a volume is used by one task at a time, and service.count is %d", *full.Service.Count)
		}
	case SystemType:
		found.checkProgress("system", full.Rolling())
		if j.Task.Spread != "" || j.Task.Most != 0 {
			found.say("task.spread", "a system job has one task on each agent; leave task.spread and task.most out")
		}
	case CronType:
		full.Cron.check(found)
	case GangType:
		if j.Gang == nil {
			found.say("gang.members", "it is missing; write 2 to %d", MembersMax)
		}
		if len(j.Task.Volumes) > 0 {
			found.say("task.volumes", "a volume is used by one task at a time, and a gang has several")
		}
	case DAGType:
		full.checkSteps(found)
		if j.Task.asText() != (Task{}).asText() {
			found.say("task", "each step of a DAG has a task of its own; write it as steps.task")
		}
	}
}

// StepsMax bounds the steps of a DAG.
const StepsMax = 256

func (j Job) checkSteps(found *Problems) {
	if len(j.Steps) == 0 {
		found.say("steps", "there is none; write at least one")
	}
	names := make(map[string]bool, len(j.Steps))
	for _, step := range j.Steps {
		names[step.Name] = true
	}
	seen := make(map[string]bool, len(j.Steps))
	for i, step := range j.Steps {
		field := fmt.Sprintf("steps[%d]", i)
		if err := checkName(step.Name); err != nil {
			found.say(field+".name", "%v", err)
		} else if seen[step.Name] {
			found.say(field+".name", "another step is called %q too", step.Name)
		}
		seen[step.Name] = true
		for _, name := range step.After {
			if !names[name] {
				found.say(field+".after", "there is no step %q", name)
			}
		}
		step.Task.checkTask(field+".task", false, found)
	}
	if planned := planSteps(j.Steps); len(*found) == 0 && len(planned) < len(j.Steps) {
		var waiting []string
		for i, step := range j.Steps {
			if !slices.ContainsFunc(planned, func(sub SubJob) bool { return sub.Name == step.Name }) {
				waiting = append(waiting, fmt.Sprintf("steps[%d] (%s)", i, step.Name))
			}
		}
		found.say("steps", "some wait for each other in a ring, so that none of these could begin: %s; take a name out of the after of one of them",
			strings.Join(waiting, ", "))
	}
}

// checkName allows only names that can be a part of a task's ID and of a key of the store.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("it is missing; write one such as \"web\"")
	case len(name) > NameBytesMax:
		return fmt.Errorf("it has %d bytes; at most %d are allowed", len(name), NameBytesMax)
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "":
		return fmt.Errorf("%q; use letters, digits, '-' and '_' alone", name)
	}
	return nil
}

func (t Task) checkTask(field string, service bool, found *Problems) {
	switch {
	case t.Command == "" && len(t.Argv) == 0 && t.Image == "":
		found.say(field+".command", "it is missing; write a line for the shell, or a program with its arguments as %s.argv", field)
		return
	case t.Command != "" && len(t.Argv) > 0:
		found.say(field+".argv", "there is a command as well; leave one of them out")
		return
	}
	for i, id := range t.Volumes {
		volume := api.Label{Name: "disk", Reserved: api.DefaultRole, Dynamic: true, Volume: id}
		if err := api.NewResources(api.Resource{Label: volume, Scalar: 1}).Check(); err != nil || id == "" {
			found.say(fmt.Sprintf("%s.volumes[%d]", field, i), "%q is no volume's ID; 'tender volume list' shows them", id)
		} else if slices.Contains(t.Volumes[:i], id) {
			found.say(fmt.Sprintf("%s.volumes[%d]", field, i), "%q is there twice", id)
		}
	}
	if service && t.Timeout != 0 {
		found.say(field+".timeout", "the tasks of a service and of a system job have no end; leave it out")
	}
	t.checkPlaces(field, found)
	t.checkHealth(field, found)
	t.checkSecrets(field, found)
	for _, name := range slices.Sorted(maps.Keys(t.Resources)) {
		if slices.Contains([]string{"cpus", "mem", "disk", "gpus", "ports"}, name) {
			found.say(field+".resources."+name, "it has a field of its own, %s.%s", field, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		if strings.HasPrefix(name, "TENDER_") {
			found.say(field+".env."+name, "names that begin with TENDER_ are Tender's own")
		}
	}
	if found.isAbout(field) {
		return
	}
	task := t.withDefaults().APITask()
	task.ID = "task"
	task.Ports, task.Checks = nil, nil // the numbers of the ports are known only with the offer
	if err := task.Check(); err != nil {
		found.say(field, "%v", err)
	}
}

func (t Task) checkPlaces(field string, found *Problems) {
	if t.Spread != "" {
		if err := t.Spread.Check(); err != nil {
			found.say(field+".spread", "%v", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Where)) {
		if err := api.CheckID("an attribute's name", name); err != nil {
			found.say(field+".where", "%v", err)
		}
		if len(t.Where[name].Values) == 0 {
			found.say(field+".where."+name, "it matches nothing; %s", MatchForm)
		}
	}
	what := ".where"
	if t.Constraint != "" {
		what = ".constraint"
	}
	if n := len(t.WantedAgent()); n > api.ConstraintBytesMax {
		found.say(field+what, "it comes to a constraint of %d bytes, at most %d are allowed; name fewer or shorter attributes", n, api.ConstraintBytesMax)
	}
	for i, name := range t.Ports {
		if err := checkName(name); err != nil {
			found.say(fmt.Sprintf("%s.ports[%d]", field, i), "%v", err)
		}
		if slices.Contains(t.Ports[:i], name) {
			found.say(fmt.Sprintf("%s.ports[%d]", field, i), "%q is there twice", name)
		}
	}
}
