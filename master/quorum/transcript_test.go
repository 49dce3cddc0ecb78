package quorum

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/transcript"
)

// TestTranscripts plays testdata. Each line of a block is one thing that a master is told; below stands what it decides.
// Lines of members, self, says and view are what it knows; all others are events and questions. A peer is written m1, which
// is at host-m1, or m1@ADDRESS; in parentheses it has no vote.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Story { return &play{t: t, answers: Answers{}} })
}

// play is one master of a transcript.
type play struct {
	t          *testing.T
	founding   Founding
	patience   Patience
	succession Succession
	moves      Moves
	doubt      Doubt
	view       View
	self       About
	members    []Member
	answers    Answers
	now        time.Time
	said       []string
}

func (p *play) Play(t *testing.T, line transcript.Line) {
	p.t = t
	if said := p.line(line.Verb, line.Words, line); said != "" {
		p.said = append(p.said, said)
	}
}

func (p *play) Said() string {
	said := strings.Join(p.said, "\n")
	p.said = nil
	return said
}

func (p *play) line(verb string, args []string, line transcript.Line) string {
	switch verb {
	case "members":
		p.members = members(args)
		p.view.Members = p.members
	case "self":
		p.self = p.about(line)
		p.view.Self = p.self.ID
	case "says":
		answer := p.about(line)
		p.answers[answer.ID] = answer
	case "forget":
		p.answers = Answers{}
	case "found", "answer", "silent":
		return p.found(verb, args, line)
	case "term":
		after, err := time.ParseDuration(args[2])
		p.must(err)
		p.now = p.now.Add(after)
		return fmt.Sprintf("%d times as long", p.patience.Look(p.number(args[0]), p.now))
	case "view", "left", "begun", "reached", "waited", "compared", "met":
		return p.succeed(verb, line)
	case "heard", "moved", "where", "unlisted", "handed", "elsewhere":
		return p.move(verb, args)
	case "missing":
		return verdict(Missing(p.members, p.answers, p.self.ID), "enough answer")
	case "format":
		return fmt.Sprintf("format %d", AgreedFormat(p.members, p.answers, p.self))
	case "hash":
		return verdict(MajorityHash(p.members, p.answers, p.self), "no majority")
	case "superseded":
		newest, found := Superseding(p.self, p.answers)
		if !found {
			return "nobody's epoch counts us out"
		}
		return fmt.Sprintf("by %s of epoch %d", newest.ID, newest.Epoch)
	case "take-over":
		next, err := TakeOver(otherVoters(View{Self: p.self.ID, Members: p.members}, ""), p.answers)
		if err != nil {
			return "nobody: " + err.Error()
		}
		return next.String()
	case "past":
		return fmt.Sprint(IsOfThePast(api.MasterID(args[0]), line.Named["new"], p.number(args[1]), p.self))
	case "removed":
		return fmt.Sprint(IsRemoved(p.self, p.answers))
	case "add", "remove":
		return p.admit(verb, args)
	default:
		p.t.Fatalf("what is %q?", verb)
	}
	return ""
}

func (p *play) found(verb string, args []string, line transcript.Line) string {
	var step FoundingStep
	var err error
	switch verb {
	case "found":
		p.founding = Founding{Self: founders(args[0])[0], Peers: peers(strings.Join(args[1:], ","))}
		step = p.founding.Begin()
	case "answer":
		step, err = p.founding.Answered(p.about(line), nil)
	case "silent":
		step, err = p.founding.Answered(About{}, errors.New("silent"))
	}
	switch {
	case err != nil:
		return "refused: " + err.Error()
	case step.Ask != nil:
		return "ask " + step.Ask.String()
	case step.Found != nil:
		return fmt.Sprint(ClusterOf(step.Found), " of ", step.Found)
	case step.Join != "":
		return fmt.Sprintf("join %s, as %s says", step.Join, step.Through)
	}
	return "wait for " + strings.Join(step.Wait, ", ")
}

func (p *play) succeed(verb string, line transcript.Line) string {
	var event any
	switch verb {
	case "view":
		p.view.Leader, p.view.Follower = Peer{}, !line.Has("candidate")
		if leader := line.Named["leader"]; leader != "" {
			p.view.Leader = peers(leader)[0]
		}
		p.view.Term, p.view.Last = line.Number(p.t, "term"), line.Number(p.t, "last")
		return ""
	case "left":
		event = Left{api.MasterID(line.Word(0))}
	case "begun":
		event = Begun{Founded: line.Has("founded")}
	case "reached":
		event = Reached{Answered: line.Has("answered"), Refused: line.Has("refused")}
	case "waited":
		event = Waited{}
	case "met":
		event = Met{All: line.Has("all")}
	case "compared":
		last := map[api.MasterID]uint64{}
		for id := range line.Named {
			last[api.MasterID(id)] = line.Number(p.t, id)
		}
		event = Compared{last}
	}
	step := p.succession.Step(p.view, event)
	switch {
	case step.Reach != nil:
		return "reach " + step.Reach.String()
	case step.Wait > 0:
		return "wait " + step.Wait.String()
	case step.Compare != nil:
		return "compare with " + listMembers(step.Compare)
	case step.Meet != nil:
		return "meet " + listMembers(step.Meet)
	case step.Stand:
		return "stand"
	}
	if !reflect.DeepEqual(p.succession, Succession{}) {
		p.t.Errorf("it rests, and remembers %+v", p.succession)
	}
	return "rest"
}

func (p *play) move(verb string, args []string) string {
	peer := Peer{}
	if len(args) > 0 {
		peer = peers(args[0])[0]
	}
	switch verb {
	case "heard":
		doubt, doubted := p.moves.Heard(peer, p.members)
		if p.doubt = doubt; !doubted {
			return "no doubt"
		}
		return fmt.Sprintf("look for it at %s and at %s", doubt.Says.Addr, doubt.Dialed.Addr)
	case "moved":
		p.moves.Moved(p.doubt)
	case "where":
		return p.moves.Where(peer)
	case "handed":
		p.moves.Handed(peer)
	case "unlisted":
		p.moves.Keep(p.members)
		return fmt.Sprint(p.moves.Unlisted(p.members))
	case "elsewhere":
		return listMembers(Elsewhere(p.members, peers(strings.Join(args, ",")), p.self.Cluster, p.answers))
	}
	return ""
}

func (p *play) admit(verb string, args []string) string {
	var err error
	known := false
	if verb == "remove" {
		var costs string
		costs, err = CheckRemoval("raft.remove", api.MasterID(args[0]), p.self.ID, p.members, p.answers, slices.Contains(args, "force"))
		if costs != "" {
			return "yes: " + costs
		}
	} else {
		peer := peers(args[0])[0]
		if known, err = CheckListed(peer, p.answers[peer.ID].Incarnation, p.members); err == nil && !known {
			err = CheckNew(peer, p.answers[peer.ID], p.self, p.self.Format)
		}
	}
	switch {
	case err != nil:
		return "refused: " + err.Error()
	case known:
		return "go on"
	}
	return "yes"
}

// about reads such as m2 cluster=c1 epoch=3 founders=m1/i1,m2/i2 members=m1,m2,(m3).
func (p *play) about(line transcript.Line) About {
	index, hash, _ := strings.Cut(line.Named["hash"], ":")
	a := About{
		ID: api.MasterID(line.Word(0)), Cluster: api.ClusterID(line.Named["cluster"]), Incarnation: line.Named["new"], Version: line.Named["version"],
		Peers: peers(line.Named["peers"]), Founders: founders(line.Named["founders"]), Members: members(line.List("members")),
		Format: line.Number(p.t, "format"), Epoch: line.Number(p.t, "epoch"), Applied: line.Number(p.t, "applied"), Last: line.Number(p.t, "last"),
		Standing: line.Has("standing"),
	}
	if index != "" {
		a.Mark = Mark{p.number(index), hash}
	}
	return a
}

// peers reads such as m1,m2@host9.
func peers(text string) (list []Peer) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		id, addr, named := strings.Cut(word, "@")
		if !named {
			addr = "host-" + id
		}
		list = append(list, Peer{api.MasterID(id), addr})
	}
	return list
}

// members reads peers with their incarnations, such as m1/i1; one in parentheses has no vote.
func members(words []string) (list []Member) {
	for _, word := range words {
		bare := strings.Trim(word, "()")
		id, incarnation, _ := strings.Cut(bare, "/")
		list = append(list, Member{peers(id)[0], incarnation, bare == word})
	}
	return list
}

// founders reads such as m1/i1,m2/i2: masters and their incarnations.
func founders(text string) (list []Founder) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		id, incarnation, _ := strings.Cut(word, "/")
		list = append(list, Founder{peers(id)[0], incarnation})
	}
	return list
}

func listMembers(list []Member) string {
	words := make([]string, len(list))
	for i, m := range list {
		words[i] = m.String()
		if !m.Voter {
			words[i] = "(" + words[i] + ")"
		}
	}
	return verdict(strings.Join(words, " "), "nobody")
}

func verdict(text, none string) string {
	if text == "" {
		return none
	}
	return text
}

func (p *play) number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	p.must(err)
	return n
}

func (p *play) must(err error) {
	if err != nil {
		p.t.Fatal(err)
	}
}
