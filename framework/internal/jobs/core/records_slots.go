package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// slotRecords holds the slots of a part. A manager that takes over reads the slots of all jobs before it can answer. Of
// most slots only the agent that has the task needs to be stored, so these are written in a short form.
type slotRecords []*slot

// shortRecords is the form in which slots are written.
type shortRecords struct {
	Since  int64       `json:"since,omitempty"`  // when the first task was launched, in Unix nanoseconds
	Agents []taskAgent `json:"agents,omitempty"` // the agents that have the tasks
	Tasks  string      `json:"tasks,omitempty"`  // of each: index, attempt, try, which agent, version, ns after Since
	Slots  []*slot     `json:"slots,omitempty"`  // slots that can't be written in short form
}

type taskAgent struct {
	ID       api.AgentID `json:"id"`
	Hostname string      `json:"hostname,omitempty"`
	Place    string      `json:"place,omitempty"`
	Bound    bool        `json:"bound,omitempty"` // the slots belong to this agent, in a system job
}

// taskNumbers is how many numbers Tasks has for each task.
const taskNumbers = 6

// short reports whether the slot can be written in short form.
func (s *slot) short() bool {
	live := s.live()
	return live != nil && len(s.Attempts) == 1 && s.Tries == live.Try && s.Tally == (work.Tally{}) && s.Pause.IsZero() && !s.Trial &&
		(s.Agent == "" || s.Agent == live.Agent) && live.Version == s.Version && live.Kill == work.NotKilled && live.Copying == work.NoCopy && len(live.Ports) == 0 && !live.Since.IsZero()
}

// MarshalJSON implements [json.Marshaler].
func (list slotRecords) MarshalJSON() ([]byte, error) {
	var form shortRecords
	var tasks []byte
	agents := make(map[taskAgent]int)
	for _, s := range list {
		if !s.short() {
			form.Slots = append(form.Slots, s)
			continue
		}
		live := s.live()
		agent := taskAgent{live.Agent, live.Hostname, live.Place, s.Agent != ""}
		at, known := agents[agent]
		if !known {
			at = len(form.Agents)
			form.Agents, agents[agent] = append(form.Agents, agent), at
		}
		since := live.Since.UnixNano()
		if len(tasks) == 0 {
			form.Since = since
		}
		for _, number := range [taskNumbers]int64{int64(s.Index), int64(live.Number), int64(live.Try), int64(at), int64(s.Version), since - form.Since} {
			if len(tasks) > 0 {
				tasks = append(tasks, ' ')
			}
			tasks = strconv.AppendInt(tasks, number, 10)
		}
	}
	form.Tasks = string(tasks)
	return json.Marshal(form)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (list *slotRecords) UnmarshalJSON(text []byte) error {
	var form shortRecords
	if err := json.Unmarshal(text, &form); err != nil {
		return err
	}
	if slices.ContainsFunc(form.Slots, func(s *slot) bool { return s == nil || slices.Contains(s.Attempts, nil) }) {
		return errors.New("a slot or an attempt of one is null")
	}
	if form.Tasks == "" {
		*list = form.Slots
		return nil
	}
	count := (strings.Count(form.Tasks, " ") + 1) / taskNumbers
	*list = slices.Grow(form.Slots, count)
	attempts := make([]attempt, count)
	for i, rest := 0, form.Tasks; rest != ""; i++ {
		var numbers [taskNumbers]int64
		for n := range numbers {
			var text string
			var err error
			text, rest, _ = strings.Cut(rest, " ")
			if numbers[n], err = strconv.ParseInt(text, 10, 64); err != nil {
				return fmt.Errorf("task %d of %q: %w", i, form.Tasks, err)
			}
		}
		if at := numbers[3]; at < 0 || at >= int64(len(form.Agents)) {
			return fmt.Errorf("task %d of %q: there is no agent %d", i, form.Tasks, at)
		}
		agent := form.Agents[numbers[3]]
		live := &attempts[i]
		*live = attempt{Attempt: work.Attempt{Number: int(numbers[1]), Agent: agent.ID, Since: time.Unix(0, form.Since+numbers[5]).UTC()},
			Try: int(numbers[2]), Hostname: agent.Hostname, Place: agent.Place, Version: int(numbers[4])}
		s := &slot{Index: int(numbers[0]), Tries: live.Try, Version: live.Version}
		s.Add(live)
		if agent.Bound {
			s.Agent = agent.ID
		}
		*list = append(*list, s)
	}
	return nil
}
