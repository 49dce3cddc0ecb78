package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/testing/chaos"
)

// promise is something that an operator can ask for, with what must have come of it although the leader was killed right
// behind its answer. (Protocol rule R53.) AGENT stands for the agent that is struck.
type promise struct {
	ask  string
	look string // a command that lists what was asked for
	want string // is in its output then
	gone bool   // want is not in its output then
}

// promises are asked for in this order, so that each is undone by a later one and nothing is left.
var promises = []promise{
	{ask: "deactivate AGENT", look: "get agents AGENT", want: "deactivated"},
	{ask: "reactivate AGENT", look: "get agents AGENT", want: "deactivated", gone: true},
	{ask: "maintenance set AGENT --start 5h --duration 1h", look: "describe agent AGENT -o json", want: `"maintenance": {`},
	{ask: "maintenance clear AGENT", look: "describe agent AGENT -o json", want: `"maintenance": {`, gone: true},
	{ask: "quota answers --limit cpus:3", look: "get roles answers", want: "answers"},
	{ask: "reserve AGENT disk:64 --role answers", look: "get roles answers -o json", want: `"disk": 64`},
	{ask: "volume create AGENT answered --role answers --size 32", look: "volume list", want: "answered"},
	{ask: "volume destroy AGENT answered --role answers --force", look: "volume list", want: "answered", gone: true},
	{ask: "unreserve AGENT disk:64 --role answers", look: "get roles answers -o json", want: `"disk": 64`, gone: true},
	{ask: "quota answers --limit none", look: "get roles -o json", want: `"role": "answers"`, gone: true},
	{ask: "run --detach --name answered --cpus 0.1 --mem 16 -- sleep 100000", look: "get tasks --state RUNNING", want: "answered.0"},
	{ask: "kill answered.0", look: "get tasks --state RUNNING", want: "answered.0", gone: true},
	{ask: "teardown answered", look: "get frameworks", want: "answered", gone: true},
	{ask: "drain AGENT", look: "get agents AGENT", want: "drained"},
	{ask: "reactivate AGENT", look: "get agents AGENT", want: "drain", gone: true},
}

// killBehindAnswers asks for one thing after the other and kills the leader right behind each answer.
func killBehindAnswers(s *stage, agent *node, _ chaos.Fault) (end func() error, err error) {
	h := harm{agent: agent.name, began: time.Now(), ends: "KILLED"} // by the drain
	words := func(text string) []string { return strings.Fields(strings.ReplaceAll(text, "AGENT", agent.name)) }
	for _, p := range promises {
		leader, err := s.awaitLeader(s.ctx)
		if err != nil {
			return nil, err
		}
		if err := s.await(s.ctx, "tender "+p.ask, s.options.heal, func(ctx context.Context) string { return s.tender(ctx, words(p.ask)...) }); err != nil {
			return nil, err
		}
		leader.kill(syscall.SIGKILL)
		if err := leader.start(); err != nil {
			return nil, err
		}
		var said []byte
		err = s.await(s.ctx, "what was promised by tender "+p.ask, s.options.heal, func(ctx context.Context) string {
			var err error
			if said, err = s.ask(ctx, words(p.look)...); err != nil || bytes.Contains(said, []byte(p.want)) == p.gone {
				return fmt.Sprintf("%v: %s", err, said)
			}
			return ""
		})
		if err != nil {
			return nil, err
		}
	}
	h.over = time.Now()
	s.r.harms = append(s.r.harms, h)
	return nil, nil
}
