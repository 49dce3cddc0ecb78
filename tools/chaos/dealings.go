package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/internal/testing/history"
)

// dealings are what the clerks asked of the store and were answered, in the order of the journal's lines.
type dealings struct {
	line    int64
	done    []dealing
	asked   map[string]int // index into done, by the name of the operation
	takings []taking
	wrote   time.Time              // when a write was last acknowledged
	listed  int64                  // the line before the store was listed at the end
	held    map[string]history.Got // what the store contained at the end
}

type dealing struct {
	history.Event
	by string // the process
}

// taking says that a process became the active instance.
type taking struct {
	line int64
	by   string
}

func newDealings() *dealings {
	return &dealings{asked: map[string]int{}, held: map[string]history.Got{}}
}

// add takes the next line of the journal, whatever it is about.
func (d *dealings) add(e entry) {
	d.line++
	switch e.what {
	case "active":
		d.takings = append(d.takings, taking{d.line, strings.Join(e.args, "-")})
	case "ask":
		d.ask(e.args)
	case "answer":
		d.answer(e)
	case "list":
		d.listed = d.line
	case "store":
		d.held[e.args[0]] = history.Got{Version: number(e.args[1]), Value: e.args[2]}
	}
}

// ask notes an operation whose answer is not known yet.
func (d *dealings) ask(args []string) {
	words := strings.SplitN(args[0], "-", 3) // scheduler, process, the rest
	d.asked[args[0]] = len(d.done)
	d.done = append(d.done, dealing{by: words[0] + "-" + words[1], Event: history.Event{
		Op:  history.Op{Kind: history.Kind(args[1]), Key: args[2], Value: args[3], Version: number(args[4])},
		Got: history.Got{Unknown: true}, Call: d.line, Return: math.MaxInt64,
	}})
}

func (d *dealings) answer(e entry) {
	i, known := d.asked[e.args[0]]
	if !known {
		return
	}
	one := &d.done[i]
	one.Return = d.line
	one.Got = history.Got{Version: number(e.args[1]), Value: e.args[2], Stale: e.args[3] == "stale", Unknown: e.args[3] == "unknown"}
	if one.Kind != history.Get && !one.Stale && !one.Unknown {
		d.wrote = e.at
	}
}

// judge returns an error if no single copy of the store could have given these answers and the final content. unknown
// is how many writes may or may not have happened.
func (d *dealings) judge() (unknown int, err error) {
	events, keys := make([]history.Event, 0, len(d.done)), map[string]bool{}
	for _, one := range d.done {
		e := one.Event
		keys[e.Key] = true
		if e.Unknown && e.Kind != history.Get {
			unknown++
			e.Return = d.latest(one)
		}
		events = append(events, e)
	}
	for key := range keys { // order: irrelevant because each is judged by itself
		events = append(events, history.Event{Op: history.Op{Kind: history.Get, Key: key}, Got: d.held[key], Call: d.listed, Return: d.line + 1})
	}
	return unknown, history.Judge(events)
}

// waits says whether a process has asked something and was not answered yet.
func (d *dealings) waits(by string) bool {
	return slices.ContainsFunc(d.done, func(one dealing) bool { return one.by == by && one.Return == math.MaxInt64 })
}

// latest returns until when an unknown write may have happened: once another process is the active instance, what the
// former one asked is refused (R5).
func (d *dealings) latest(one dealing) int64 {
	for _, t := range d.takings {
		switch {
		case t.line < one.Call || t.by == one.by:
		case one.Return == math.MaxInt64:
			return t.line
		default:
			return max(t.line, one.Return)
		}
	}
	return math.MaxInt64
}

func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64) // we have written it
	return n
}
