package tidy

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// apart are folders whose packages docs/architecture.md does not list itself; it says where they are listed.
const apart = "examples master/core tender/internal/cli tools/bench"

// TestEveryPackageIsInTheHouse: the list in docs/architecture.md names every package, and nothing else.
func TestEveryPackageIsInTheHouse(t *testing.T) {
	_, text, _ := strings.Cut(contents(t, "docs/architecture.md"), "Where to look:\n\n```\n")
	text, _, found := strings.Cut(text, "```\n")
	if !found {
		t.Fatal("docs/architecture.md has no list below 'Where to look:'")
	}
	rooms, beside := listed(text)
	sources, err := read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]bool{}
	for _, f := range sources.files {
		for folder := f.pkg; folder != "."; folder = path.Dir(folder) {
			packages[folder] = true
		}
		if !slices.Contains(rooms, f.pkg) && !slices.Contains(beside, f.pkg) && f.pkg != "." && !belowApart(f.pkg) {
			rooms = append(rooms, f.pkg)
			t.Errorf("docs/architecture.md does not list the package %s", f.pkg)
		}
	}
	for _, room := range rooms {
		if _, err := os.Stat("../../" + room); err != nil && !packages[room] {
			t.Errorf("docs/architecture.md lists %s, which is not there", room)
		}
	}
}

func belowApart(pkg string) bool {
	return slices.ContainsFunc(strings.Fields(apart), func(folder string) bool { return strings.HasPrefix(pkg, folder+"/") })
}

// roomNames matches the folders at the beginning of a line of the list, and aloneNames folders that its text names.
var (
	roomNames  = regexp.MustCompile(`^( *)((?:[a-z0-9/]+/ {0,2})+)(?: |$)`)
	aloneNames = regexp.MustCompile(`\b([a-z]+(?:/[a-z]+)*)/(?:[ ,;]|$)`)
)

// listed reads the list. rooms are the folders at the beginnings of lines, each below the last one that is less
// indented. beside are the folders that the texts name.
func listed(text string) (rooms, beside []string) {
	above := []string{""}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		words := line
		if begin := roomNames.FindStringSubmatch(line); begin != nil && len(begin[1]) < 2*len(above) {
			depth := len(begin[1]) / 2
			names := strings.Fields(begin[2])
			for _, name := range names {
				rooms = append(rooms, path.Join(above[depth], name))
			}
			above = append(above[:depth+1], path.Join(above[depth], names[0]))
			words = line[len(begin[0]):]
		}
		for _, name := range aloneNames.FindAllStringSubmatch(words, -1) {
			beside = append(beside, path.Join(above[len(above)-1], name[1]))
		}
	}
	return rooms, beside
}

// TestListed shows how the list is read.
func TestListed(t *testing.T) {
	rooms, beside := listed("main.go      one\nmaster/      a\n  core/      b\n  in/book/   c; small/ is\n             more, flat/ too\n  x/  y/     d\nagent/       e\n")
	if want := []string{"master", "master/core", "master/in/book", "master/x", "master/y", "agent"}; !slices.Equal(rooms, want) {
		t.Errorf("the rooms are %q, wanted %q", rooms, want)
	}
	if want := []string{"master/in/book/small", "master/in/book/flat"}; !slices.Equal(beside, want) {
		t.Errorf("beside them are %q, wanted %q", beside, want)
	}
}
