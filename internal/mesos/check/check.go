// Package check says of the frameworks of a running cluster of Mesos what of them would not work on Tender: it reads what
// the master's /state tells, and asks package translate. It makes no connection and changes nothing.
package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/translate"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// Framework is what would become of a framework.
type Framework struct {
	ID, Name string
	Tasks    int       // that run now
	Findings []Finding // none: all of it would work
}

// Finding is one thing that would not work, or would be otherwise.
type Finding struct {
	What  string
	Hard  bool     // it would not work; else it is only otherwise
	Tasks []string // of which tasks it is true; none: of the framework
}

// state is what is read of a master's /state. The rest of it is skipped.
type state struct {
	Frameworks []struct {
		ID              string   `json:"id"`
		Name            string   `json:"name"`
		Role            string   `json:"role"`
		Roles           []string `json:"roles"`
		Capabilities    []string `json:"capabilities"`
		FailoverTimeout float64  `json:"failover_timeout"`
		Tasks           []task   `json:"tasks"`
		Executors       []struct {
			ID        string          `json:"executor_id"`
			Container json.RawMessage `json:"container"`
		} `json:"executors"`
	} `json:"frameworks"`
}

type task struct {
	ID        string          `json:"id"`
	Container json.RawMessage `json:"container"`
}

// Read judges all frameworks of a master's /state, by name.
func Read(text []byte) ([]Framework, error) {
	var all state
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("this is no state of a master of Mesos: %w", err)
	}
	var frameworks []Framework
	for _, f := range all.Frameworks {
		judged := Framework{ID: f.ID, Name: f.Name, Tasks: len(f.Tasks)}
		info := &mesosv1.FrameworkInfo{User: &f.Name, Name: &f.Name, FailoverTimeout: &f.FailoverTimeout}
		if slices.Contains(f.Capabilities, "MULTI_ROLE") {
			info.Roles = f.Roles
		} else if f.Role != "" {
			info.Role = &f.Role
		}
		for _, name := range f.Capabilities {
			number := mesosv1.FrameworkInfo_Capability_Type(mesosv1.FrameworkInfo_Capability_Type_value[name])
			info.Capabilities = append(info.Capabilities, &mesosv1.FrameworkInfo_Capability{Type: &number})
		}
		read, err := translate.ReadFramework(info)
		if err != nil {
			judged.note(err.Error(), true, "")
		} else if read.FailoverTimeout().Seconds() < f.FailoverTimeout {
			judged.note(fmt.Sprintf("its failover timeout becomes %v", read.FailoverTimeout()), false, "")
		}
		for _, executor := range f.Executors {
			judged.container(executor.Container, translate.CheckExecutorContainer, "executor "+executor.ID)
		}
		for _, t := range f.Tasks {
			judged.container(t.Container, translate.CheckContainer, t.ID)
		}
		slices.SortFunc(judged.Findings, func(a, b Finding) int { return cmp.Compare(a.What, b.What) })
		frameworks = append(frameworks, judged)
	}
	slices.SortFunc(frameworks, func(a, b Framework) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	return frameworks, nil
}

func (f *Framework) container(text json.RawMessage, check func(*mesosv1.ContainerInfo) error, of string) {
	if len(text) == 0 {
		return
	}
	container := new(mesosv1.ContainerInfo)
	err := codec.JSON.Unmarshal(text, container)
	if err == nil {
		err = check(container)
	}
	if err != nil {
		f.note(err.Error(), true, of)
	}
}

// note adds a finding, or a task to one that is there.
func (f *Framework) note(what string, hard bool, task string) {
	i := slices.IndexFunc(f.Findings, func(known Finding) bool { return known.What == what })
	if i < 0 {
		f.Findings = append(f.Findings, Finding{What: what, Hard: hard})
		i = len(f.Findings) - 1
	}
	if task != "" {
		f.Findings[i].Tasks = append(f.Findings[i].Tasks, task)
	}
}

// Works says whether nothing of the framework would fail.
func (f Framework) Works() bool {
	return !slices.ContainsFunc(f.Findings, func(finding Finding) bool { return finding.Hard })
}
