package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// roomed are the packages whose core is made of rooms. A room is a struct that embeds *base, as its core does, and
// holds the rooms that it calls. Nothing else holds rooms.
const roomed = "master/core agent/core framework/internal/core"

// isCore says whether a type of such a package is the one that knows all rooms.
func isCore(name string) bool { return name == "Core" || name == "JobMaster" }

// shells are the receivers of shells that are made of rooms: the structs to which their fields point. No way of held
// structs leads from one room over another back to the first, through whatever stands between; and none to the shell,
// which alone knows all. What belongs to one room only may know that room.
var shells = map[string]string{"agent": "Agent", "master": "Master", "master/internal/raftlog": "Log"}

// roomsCallOneWay refuses calls between rooms that go in a circle. A room can call only what it holds. So it is enough
// that no room holds one from which a way leads back to it, and that what rooms share (nouns, base) holds none.
func roomsCallOneWay(t *tree) []complaint {
	var found []complaint
	for pkg := range strings.FieldsSeq(roomed) {
		found = append(found, t.roomsOf(pkg)...)
		found = append(found, t.writesNextDoor(pkg)...)
	}
	for _, p := range t.shippedPackages() {
		if shell := shells[p.path]; shell != "" {
			found = append(found, t.waysUp(p, shell)...)
		}
	}
	return found
}

// waysUp refuses rooms of a shell from which a way leads back to them, or to the shell.
func (t *tree) waysUp(p *declaredPackage, shell string) []complaint {
	all := map[string]*room{}
	for name, s := range p.structs { // order: irrelevant because each is one entry
		all[name] = &room{at: t.at(s)}
	}
	for name, r := range all { // order: irrelevant because each is one entry
		r.holds = roomsIn(p.structs[name], all)
	}
	var found []complaint
	rooms := all[shell].holds
	for i, name := range rooms {
		for _, other := range append(slices.Clone(rooms[i+1:]), shell) {
			way, back := wayBetween(all, name, other, nil), wayBetween(all, other, name, nil)
			if way != nil && back != nil {
				found = append(found, complaint{all[name].at, fmt.Sprintf("the room %s is called back: %s", name, strings.Join(append(way, back[1:]...), " > ")),
					"hold only what is called, return what happened, and let " + shell + " tell the room above"})
			}
		}
	}
	return found
}

// room is one room with the rooms in its fields.
type room struct {
	at    string
	holds []string
}

func (t *tree) roomsOf(pkg string) []complaint {
	all := map[string]*ast.StructType{}
	for _, f := range t.shipped() {
		if f.pkg != pkg {
			continue
		}
		for _, declared := range f.Decls {
			if d, ok := declared.(*ast.GenDecl); ok {
				maps.Copy(all, structs(d))
			}
		}
	}
	rooms := map[string]*room{}
	for name, s := range all {
		if !isCore(name) && embedsBase(s) {
			rooms[name] = &room{at: t.at(s)}
		}
	}
	var found []complaint
	for _, name := range slices.Sorted(maps.Keys(all)) {
		held := roomsIn(all[name], rooms)
		switch {
		case isCore(name):
		case rooms[name] != nil:
			rooms[name].holds = held
		case len(held) > 0:
			found = append(found, complaint{t.at(all[name]), fmt.Sprintf("%s is no room and holds the room %s", name, held[0]),
				"only rooms and the core may, or calls can run back up through it: return what the core is to pass on"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rooms)) {
		for _, held := range rooms[name].holds {
			if way := wayBetween(rooms, held, name, nil); way != nil {
				found = append(found, complaint{rooms[name].at, fmt.Sprintf("the room %s holds %s, and is called back: %s", name, held, strings.Join(way, " > ")),
					"return what happened, and let the core tell the room above"})
			}
		}
	}
	return found
}

// writesNextDoor refuses assignments to fields of a room by another one, or by the core: what is to be changed there is
// asked for by a call, whose name says what it means.
func (t *tree) writesNextDoor(pkg string) (found []complaint) {
	for _, p := range t.shippedPackages() {
		if p.path != pkg {
			continue
		}
		for _, d := range p.functions {
			if d.Recv == nil || d.Body == nil || len(d.Recv.List[0].Names) == 0 {
				continue
			}
			receiver := p.structs[baseName(d.Recv.List[0].Type)]
			if receiver == nil || !embedsBase(receiver) {
				continue
			}
			for _, written := range writtenIn(d.Body) {
				path := selectors(written)
				if len(path) < 3 || path[0] != d.Recv.List[0].Names[0].Name {
					continue
				}
				for _, f := range receiver.Fields.List {
					if room := p.structs[baseName(f.Type)]; room != nil && embedsBase(room) && len(f.Names) == 1 && f.Names[0].Name == path[1] {
						found = append(found, complaint{t.at(written), fmt.Sprintf("%s writes %s of the room %s", d.Name.Name, path[2], path[1]),
							"make it a call of that room"})
					}
				}
			}
		}
	}
	return found
}

// writtenIn returns what a function assigns to, counts up or down, and deletes from.
func writtenIn(body *ast.BlockStmt) (written []ast.Expr) {
	ast.Inspect(body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.AssignStmt:
			written = append(written, n.Lhs...)
		case *ast.IncDecStmt:
			written = append(written, n.X)
		case *ast.CallExpr:
			if name, is := n.Fun.(*ast.Ident); is && (name.Name == "delete" || name.Name == "clear") {
				written = append(written, n.Args[0])
			}
		}
		return true
	})
	return written
}

// selectors returns the names of a chain of fields, without the indexes in it: r, hold, awaited of r.hold.awaited[id].
func selectors(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.Ident:
		return []string{e.Name}
	case *ast.SelectorExpr:
		if path := selectors(e.X); path != nil {
			return append(path, e.Sel.Name)
		}
	case *ast.IndexExpr:
		return selectors(e.X)
	case *ast.StarExpr:
		return selectors(e.X)
	}
	return nil
}

// embedsBase says whether a struct is a room, or the core itself.
func embedsBase(s *ast.StructType) bool {
	return slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
		return len(f.Names) == 0 && baseName(f.Type) == "base"
	})
}

// roomsIn returns the rooms that the types of a struct's fields name.
func roomsIn(s *ast.StructType, rooms map[string]*room) []string {
	var held []string
	for _, f := range s.Fields.List {
		ast.Inspect(f.Type, func(node ast.Node) bool {
			if named, ok := node.(*ast.Ident); ok && rooms[named.Name] != nil && !slices.Contains(held, named.Name) {
				held = append(held, named.Name)
			}
			_, other := node.(*ast.SelectorExpr) // a type of another package
			return !other
		})
	}
	return held
}

// wayBetween returns a way on which calls may get from one room to another; nil if there is none.
func wayBetween(rooms map[string]*room, from, to string, passed []string) []string {
	if slices.Contains(passed, from) {
		return nil
	}
	passed = append(slices.Clone(passed), from)
	if from == to {
		return passed
	}
	for _, next := range rooms[from].holds {
		if way := wayBetween(rooms, next, to, passed); way != nil {
			return way
		}
	}
	return nil
}

// TestRoomsCallOneWay shows what is refused, and that the cores have rooms to check.
func TestRoomsCallOneWay(t *testing.T) {
	for _, c := range []struct{ name, text, refused string }{
		{"down", "type low struct{ *base }\ntype high struct{ *base\nlow *low }\ntype Core struct{ *base\nlow *low\nhigh *high }", ""},
		{"one way to the same room by two", "type a struct{ *base }\ntype b struct{ *base\na *a }\ntype c struct{ *base\na *a\nb *b }", ""},
		{"up", "type low struct{ *base\nhigh *high }\ntype middle struct{ *base\nlow *low }\ntype high struct{ *base\nmiddle *middle }",
			"the room high holds middle, and is called back: middle > low > high"},
		{"through a noun", "type low struct{ *base }\ntype noun struct{ rooms map[string]*low }", "noun is no room and holds the room low"},
		{"through what all share", "type base struct{ low *low }\ntype low struct{ *base }", "base is no room and holds the room low"},
		{"writes", "type low struct{ *base\nn int }\ntype high struct{ *base\nlow *low\nm int }\nfunc (h *high) f() { h.m++\nh.low.n++ }", "f writes n of the room low"},
		{"writes into a map", "type low struct{ *base\nn map[int]int }\ntype high struct{ *base\nlow *low }\nfunc (h *high) f() { h.low.n[1] = 2 }", "f writes n of the room low"},
		{"through a function", "type low struct{ *base }\ntype noun struct{ call func(*low) }", "noun is no room and holds the room low"},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := parse(core("", c.text))
			found := append(read.roomsOf("master/core"), read.writesNextDoor("master/core")...)
			if got := fmt.Sprint(found); (c.refused == "") != (len(found) == 0) || !strings.Contains(got, c.refused) {
				t.Errorf("wanted %q, got %q", c.refused, got)
			}
		})
	}
}

// TestShellsHaveNoWayUp shows what is refused of a shell's rooms.
func TestShellsHaveNoWayUp(t *testing.T) {
	for _, c := range []struct{ name, text, refused string }{
		{"down", "type Log struct{ low *low\nhigh *high }\ntype low struct{}\ntype high struct{ low *low }", ""},
		{"a noun that knows its room", "type Log struct{ low *low }\ntype low struct{ all map[int]*link }\ntype link struct{ next *link\nof *low }", ""},
		{"up to the shell", "type Log struct{ low *low }\ntype low struct{ noun *noun }\ntype noun struct{ log *Log }",
			"the room low is called back: low > noun > Log > low"},
		{"up through a noun", "type Log struct{ low *low\nhigh *high }\ntype low struct{ all map[int]*noun }\ntype noun struct{ of *high }\ntype high struct{ low *low }",
			"the room low is called back: low > noun > high > low"},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := parse(sources{"master/internal/raftlog/log.go": "package raftlog\n" + c.text})
			found := read.waysUp(read.shippedPackages()[0], "Log")
			if got := fmt.Sprint(found); (c.refused == "") != (len(found) == 0) || !strings.Contains(got, c.refused) {
				t.Errorf("wanted %q, got %q", c.refused, got)
			}
		})
	}
}
