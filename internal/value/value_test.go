package value

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

type shape interface{ corners() int }

type square struct{ side *int }

func (square) corners() int { return 4 }

type colour uint8

func (c colour) String() string { return [...]string{"red", "green"}[c] }

type room struct {
	name    string
	colour  colour
	shape   shape
	doors   map[string]*room
	windows []*room
	opened  time.Time
	data    []byte
	counts  [2]int
}

func house() *room {
	side := 3
	kitchen := &room{name: "kitchen", colour: 1, shape: square{&side}, opened: time.Unix(7, 0).UTC(), data: []byte("abc"), counts: [2]int{0, 5}}
	hall := &room{name: "hall", doors: map[string]*room{"east": kitchen, "west": nil}, windows: []*room{kitchen, {}}}
	kitchen.doors = map[string]*room{"out": hall}
	return hall
}

func TestCloneIsEqualAndSharesNothing(t *testing.T) {
	original := house()
	clone := Clone(original)
	if !reflect.DeepEqual(original, clone) {
		t.Fatalf("the clone differs:\n%s\noriginal:\n%s", Text(clone), Text(original))
	}
	if clone.doors["east"] != clone.windows[0] || clone.doors["east"].doors["out"] != clone {
		t.Error("two pointers to the same thing point to two things in the clone")
	}
	clone.name = "changed"
	clone.doors["north"] = clone
	clone.windows[0].data[0] = 'x'
	clone.windows[0].counts[1] = 9
	*clone.windows[0].shape.(square).side = 8
	if !reflect.DeepEqual(original, house()) {
		t.Errorf("a change of the clone shows in the original:\n%s", Text(original))
	}
}

func TestTextIsReadable(t *testing.T) {
	const want = `name = hall
doors[east].name = kitchen
doors[east].colour = green
doors[east].shape.square.side = 3
doors[east].doors[out] = the same as value
doors[east].opened = 1970-01-01 00:00:07 +0000 UTC
doors[east].data = 3 bytes "abc", checksum 352441c2
doors[east].counts[0] = zero
doors[east].counts[1] = 5
doors[west] = zero
windows[0] = the same as doors[east]
windows[1] = zero
`
	if got := Text(house()); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := Text(nil); got != "nil\n" {
		t.Errorf("nothing is printed as %q", got)
	}
}

func TestWhatIsNoDataIsRefused(t *testing.T) {
	type waiter struct{ do func() }
	for name, try := range map[string]func(){
		"func": func() { Clone([]waiter{{func() {}}}) },
		"chan": func() { Text(map[string]chan int{"a": make(chan int)}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, name) || !strings.Contains(said, "holds data alone") {
					t.Errorf("it was refused with %q", said)
				}
			}()
			try()
			t.Error("it was not refused")
		})
	}
}
