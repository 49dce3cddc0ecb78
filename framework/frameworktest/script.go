package frameworktest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// Play says how one played task goes. The zero value succeeds at once.
type Play struct {
	Duration time.Duration // how long the task runs
	Forever  bool          // it runs until it is killed
	ExitCode int           // other than 0: FAILED
	Message  string        // of the terminal status
	Data     []byte        // of the terminal status
	// Stubborn ignores a kill. When its grace is over it is KILLED with exit code 137, like a process that ignores
	// SIGTERM.
	Stubborn bool
	// ReadyAfter is how long after its start the task begins to pass its checks; see [Framework.SetHealth].
	ReadyAfter time.Duration
	// Crash ends the whole executor, with all its tasks, instead of the one task.
	Crash bool
}

// PlayCommand is the default script. It plays the commands that tests need: "sleep 5" runs for five seconds, "false"
// and "exit 3" fail, "sleep infinity" runs until it is killed. In Shell several may be joined by ";". Every other
// command succeeds at once.
func PlayCommand(task api.Task) Play {
	var play Play
	if task.Command == nil {
		return play
	}
	line := task.Command.Shell
	if line == "" {
		line = strings.Join(task.Command.Argv, " ")
	}
	for step := range strings.SplitSeq(line, ";") {
		if play.step(strings.Fields(step)) {
			break
		}
	}
	return play
}

// step plays one simple command, and reports whether it ends the line.
func (p *Play) step(words []string) bool {
	if len(words) == 0 {
		return false
	}
	p.ExitCode = 0
	switch words[0] {
	case "sleep":
		p.sleep(words[1:])
		return p.Forever
	case "false":
		p.ExitCode = 1
	case "exit":
		if len(words) > 1 {
			p.ExitCode, _ = strconv.Atoi(words[1])
		}
		return true
	}
	return false
}

func (p *Play) sleep(words []string) {
	for _, word := range words {
		if word == "infinity" {
			p.Forever = true
			return
		}
		if seconds, err := strconv.ParseFloat(word, 64); err == nil {
			p.Duration += time.Duration(seconds * float64(time.Second))
		} else if d, err := time.ParseDuration(word); err == nil {
			p.Duration += d
		}
	}
}

// outcome returns the state and the message with which the task ends by itself.
func (p Play) outcome() (api.TaskState, string) {
	if p.ExitCode == 0 {
		return api.TaskFinished, p.Message
	}
	if p.Message != "" {
		return api.TaskFailed, p.Message
	}
	return api.TaskFailed, fmt.Sprintf("exited with %d", p.ExitCode)
}
