package allocatortest

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// The lines of stories.txt. A word NAME=VALUE is an option; "_" in its value stands for a space. Tasks are t1, t2 and so
// on, in the order in which they are launched.
//
//	story NAME                              begins a story
//	framework ID ROLE...                    subscribes; constraint= min= max= principal= withheld=, or the words inactive, revocable
//	agent ID RESOURCES                      adds or changes one; zone= host= attributes=NAME:VALUE away=WHY
//	remove ID                               removes an agent
//	role NAME                               sets it; guarantee= limit=
//	suppress ID, revive ID, hold on|off     as the methods of Cluster
//	demand ID ROLE N×RESOURCES[?CONSTRAINT]...  states it, none: it wants nothing; preferred= only= spread=ATTRIBUTE most= group=;
//	                                        the word unstated takes it back
//	use AGENT RESOURCES                     is used beyond what was asked for
//	accept ID AGENT RESOURCES..., decline ID AGENT  answers the offer; filter=TIME
//	finish TASK, sleep TIME
//	allocate [N]                            runs the policy; that many offers are made
//	offers ID AGENT RESOURCES, ...          runs it and compares its offers; unordered: in any order; nothing: there are none
//	because ID [AGENT]: TEXT                one of the reasons has this text; first because: they begin with it
//	wakes in TIME, free AGENT RESOURCES, used ROLE KIND MILLI..., share ID N, filters PRINCIPAL N, asked back N
//	                                        compares what there is; of several amounts any is right

//go:embed stories.txt
var written string

// told returns the stories that are written in lines.
func told() (all []story) {
	for _, text := range strings.Split(written, "\nstory ")[1:] {
		name, lines, _ := strings.Cut(text, "\n")
		all = append(all, story{name, func(c *Cluster) { c.tell(lines) }})
	}
	return all
}

// tell plays the lines of a story.
func (c *Cluster) tell(lines string) {
	c.Helper()
	for text := range strings.Lines(lines) {
		if text = strings.TrimSpace(text); text != "" && text[0] != '#' {
			c.Logf("> %s", text)
			c.read(text).play()
		}
	}
}

// line is a line of a story.
type line struct {
	*Cluster
	text    string // what stands behind the verb
	verb    string
	words   []string // without the options
	options map[string]string
}

func (c *Cluster) read(text string) line {
	l := line{Cluster: c, options: make(map[string]string)}
	l.verb, l.text, _ = strings.Cut(text, " ")
	for _, word := range strings.Fields(l.text) {
		if name, value, is := strings.Cut(word, "="); is && !strings.Contains(name, "?") {
			l.options[name] = strings.ReplaceAll(value, "_", " ")
		} else {
			l.words = append(l.words, word)
		}
	}
	return l
}

func (l line) play() {
	l.Helper()
	switch l.verb {
	case "framework":
		l.framework()
	case "agent":
		l.agent()
	case "remove":
		l.RemoveAgent(api.AgentID(l.word(0)))
	case "role":
		l.Role(allocator.Role{Role: api.Role(l.word(0)), Guarantee: l.resources(l.options["guarantee"]), Limit: l.resources(l.options["limit"])})
	case "suppress":
		l.Suppress(l.id())
	case "revive":
		l.Revive(l.id())
	case "hold":
		l.Hold(l.word(0) == "on")
	case "demand":
		l.demands()
	case "use":
		l.Policy.Use(api.AgentID(l.word(0)), l.resources(l.word(1)))
	case "accept", "decline":
		l.answer()
	case "finish":
		l.Finish(l.task())
	case "sleep":
		l.Sleep(l.duration(l.word(0)))
	default:
		l.expect()
	}
}

// expect plays a line that says what is expected.
func (l line) expect() {
	l.Helper()
	switch l.verb {
	case "allocate":
		if offers := l.Allocate(); len(l.words) > 0 && strconv.Itoa(len(offers)) != l.word(0) {
			l.Fatalf("%s offers are expected, got %s", l.word(0), l.Cluster.Words(offers))
		}
	case "offers":
		l.Expect(l.offers()...)
	case "unordered":
		l.ExpectAll(l.offers()...)
	case "because":
		id, agent, why := because(l.text)
		l.Because(id, agent, why)
	case "first":
		id, agent, why := because(strings.TrimPrefix(l.text, "because "))
		if got := l.Reasons(id, agent); !strings.HasPrefix(got, why) {
			l.Fatalf("the first reason is not %q: %s", why, got)
		}
	case "wakes":
		l.same(l.Policy.Wake().Sub(l.Now), l.duration(l.word(1)).String())
	case "free":
		l.same(l.Free(api.AgentID(l.word(0))), l.resources(l.word(1)).String())
	case "used":
		l.same(l.Used(api.Role(l.word(0)), l.word(1)), l.words[2:]...)
	case "share":
		l.same(l.Policy.Shares().Frameworks[l.id()], l.word(1))
	case "filters":
		if policy, counts := l.Policy.(allocator.FilterCounter); counts {
			l.same(policy.Filters(l.word(0)), l.word(1))
		}
	case "asked":
		l.same(len(l.TookBack), l.word(1))
	default:
		l.Fatalf("no line of a story begins with %s", l.verb)
	}
}

func (l line) framework() {
	flag := func(word string) bool { return slices.Contains(l.words, word) }
	f := allocator.Framework{Active: !flag("inactive"), Withheld: l.options["withheld"]}
	f.ID, f.Name, f.Principal, f.Constraint = l.id(), l.word(0), l.options["principal"], l.options["constraint"]
	f.MinOffer, f.MaxOffer, f.Revocable = l.resources(l.options["min"]), l.resources(l.options["max"]), flag("revocable")
	for _, role := range l.words[1:] {
		if role != "inactive" && role != "revocable" {
			f.Roles = append(f.Roles, api.Role(role))
		}
	}
	l.SetFramework(f)
}

func (l line) agent() {
	a := allocator.Agent{ID: api.AgentID(l.word(0)), Total: l.resources(l.word(1)), Zone: l.options["zone"], Why: l.options["away"]}
	a.Offerable, a.Hostname = a.Why == "", cmp.Or(l.options["host"], l.word(0)+".example.com")
	if name, value, is := strings.Cut(l.options["attributes"], ":"); is {
		a.Attributes = map[string]string{name: value}
	}
	l.SetAgent(a)
}

func (l line) demands() {
	l.Helper()
	id, role := l.id(), api.Role(l.word(1))
	if slices.Contains(l.words, "unstated") {
		l.NoDemand(id, role)
		return
	}
	var shapes []api.Shape
	for _, word := range l.words[2:] {
		count, resources, _ := strings.Cut(word, "×")
		resources, constraint, _ := strings.Cut(resources, "?")
		shape := api.Shape{Resources: l.resources(resources), Count: l.number(count), Constraint: strings.ReplaceAll(constraint, "_", " "), Group: l.options["group"]}
		if near := api.AgentID(cmp.Or(l.options["preferred"], l.options["only"])); near != "" {
			shape.Preferred, shape.OnlyPreferred = []api.AgentID{near}, l.options["only"] != ""
		}
		if attribute := l.options["spread"]; attribute != "" {
			shape.Spread = []api.Spread{{By: api.ByAttribute(attribute), Most: l.number(l.options["most"])}}
		}
		shapes = append(shapes, shape)
	}
	l.Demand(id, role, shapes...)
}

func (l line) answer() {
	l.Helper()
	var tasks []api.Resources
	for _, word := range l.words[2:] {
		tasks = append(tasks, l.resources(word))
	}
	l.Accept(l.Offer(l.id(), api.AgentID(l.word(1))), l.duration(cmp.Or(l.options["filter"], "0s")), tasks...)
}

// offers returns the offers that are expected; none: nothing.
func (l line) offers() []string {
	if l.text == "nothing" {
		return nil
	}
	return strings.Split(l.text, ", ")
}

// because reads ID [AGENT]: TEXT.
func because(text string) (id api.FrameworkID, agent api.AgentID, why string) {
	who, why, _ := strings.Cut(text, ": ")
	framework, on, _ := strings.Cut(who, " ")
	return api.FrameworkID(framework), api.AgentID(on), why
}

// same fails unless what was got is written as one of these.
func (l line) same(got any, want ...string) {
	l.Helper()
	if !slices.Contains(want, fmt.Sprint(got)) {
		l.Fatalf("%s: it is %v", l.text, got)
	}
}

func (l line) word(i int) string {
	l.Helper()
	if i >= len(l.words) {
		l.Fatalf("%s: a word is missing", l.text)
	}
	return l.words[i]
}

func (l line) id() api.FrameworkID { return api.FrameworkID(l.word(0)) }

func (l line) task() allocator.Claim {
	l.Helper()
	i := slices.IndexFunc(l.Tasks, func(t allocator.Claim) bool { return string(t.Task) == l.word(0) })
	if i < 0 {
		l.Fatalf("%s is not running", l.word(0))
	}
	return l.Tasks[i]
}

func (l line) resources(text string) api.Resources {
	l.Helper()
	if text == "" || text == "nothing" {
		return api.Resources{}
	}
	return l.R(text)
}

func (l line) number(text string) int64 {
	l.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		l.Fatalf("%s: %v", l.text, err)
	}
	return n
}

func (l line) duration(text string) time.Duration {
	l.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		l.Fatalf("%s: %v", l.text, err)
	}
	return d
}
