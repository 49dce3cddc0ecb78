package transcript

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// counter is a core that counts its events and wants to be woken once a second.
type counter struct {
	Out
	now   time.Time
	count uint64
	due   time.Time
}

func (c *counter) Said() string { return c.Take() }

func (c *counter) Play(t *testing.T, line Line) {
	switch line.Verb {
	case "add":
		c.count += line.Number(t, "n")
		if line.Has("aloud") {
			c.Say("%d of %v, %s", c.count, line.List("of"), line.Named["why"])
		}
		c.due = c.now.Add(time.Second)
	case "tick":
		Tick(&c.now, Duration(t, line.Word(0)), func() time.Time { return c.due }, func() {
			c.SayAt(c.now, fmt.Sprint("woken with ", c.count))
			c.due = c.now.Add(time.Second)
			if c.count--; c.count == 0 {
				c.due = time.Time{}
			}
		})
	default:
		t.Fatalf("no verb %q", line.Verb)
	}
}

func TestStoriesArePlayed(t *testing.T) {
	Play(t, func(*testing.T) Story { return &counter{now: Epoch} })
}

func TestALineIsParsed(t *testing.T) {
	line := Parse("  leader launch f1/t1 uri=a_b number=7 now ")
	if line.Verb != "leader" || !slices.Equal(line.Words, []string{"launch", "f1/t1", "now"}) || line.Named["uri"] != "a b" {
		t.Errorf("%+v", line)
	}
	if rest := line.Shift(); rest.Verb != "launch" || rest.Word(0) != "f1/t1" || rest.Word(7) != "" || rest.Number(t, "number") != 7 {
		t.Errorf("%+v", rest)
	}
}
