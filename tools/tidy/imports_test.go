package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// importsPointDown checks the layers of packages. Tests may import anything, except those of the examples, which show
// what can be done from outside.
func importsPointDown(t *tree) []complaint {
	var found []complaint
	homeless := map[string]bool{}
	for _, f := range t.files {
		row, ok := floorOf(f.pkg)
		if !ok {
			if !homeless[f.pkg] {
				homeless[f.pkg] = true
				found = append(found, complaint{f.path + ":1", "package " + f.pkg + " stands on no floor",
					"add its row to floors in tools/tidy/tables_test.go: what it may import, as little as it needs"})
			}
			continue
		}
		may := row.may
		if f.test {
			may = "..."
			if within("examples/...", f.pkg) {
				may = public + "examples/..."
			}
		}
		for _, spec := range f.Imports {
			target, ok := ours(imported(spec))
			if !ok || target == f.pkg || within(may, target) {
				continue
			}
			found = append(found, complaint{t.at(spec), f.pkg + " may not import " + target,
				"imports point down: " + orNone(may) + " (floors in tools/tidy/tables_test.go)"})
		}
	}
	return found
}

// floorsHoldPackages refuses rows of floors that match no package, and packages that rows name but that do not exist:
// after a renaming such a row could allow something that nobody meant.
func floorsHoldPackages(t *tree) []complaint {
	there := map[string]bool{}
	for _, f := range t.files {
		there[f.pkg] = true
	}
	var found []complaint
	for _, row := range floors {
		for pattern := range strings.FieldsSeq(row.pkg + " " + row.may) {
			pattern = strings.TrimPrefix(pattern, "!")
			if !slices.ContainsFunc(slices.Collect(maps.Keys(there)), func(pkg string) bool { return matches(pattern, pkg) }) {
				found = append(found, complaint{"tools/tidy/tables_test.go", "the floor of " + row.pkg + " names " + pattern + ", and no such package exists",
					"take it out, or write what the package is called now"})
			}
		}
	}
	return found
}

// foldersPointDown checks that nothing runs back up, or sideways, between the rooms of storeys.
func foldersPointDown(t *tree) []complaint {
	var found []complaint
	for _, f := range t.shipped() {
		from, at := storeyOf(f.pkg)
		for _, spec := range f.Imports {
			target, ok := ours(imported(spec))
			if !ok {
				continue
			}
			if to, below := storeyOf(target); to != from && below <= at {
				found = append(found, complaint{t.at(spec), fmt.Sprintf("%s (in %s) may not import %s (in %s)", f.pkg, from, target, to),
					"it stands no lower in the picture of docs/architecture.md, section 2 (storeys in tools/tidy/tables_test.go)"})
			}
		}
	}
	return found
}

// storeyOf returns the room of a package, and its storey as counted from the roof.
func storeyOf(pkg string) (name string, at int) {
	longest := -1
	for i, storey := range storeys {
		for _, room := range storey {
			if matches(room.holds, pkg) && len(room.holds) > longest {
				name, at, longest = room.name, i, len(room.holds)
			}
		}
	}
	return name, at
}

// TestPictureOfStoreys: the picture in docs/architecture.md has these storeys, with these rooms, in this order.
func TestPictureOfStoreys(t *testing.T) {
	_, rest, _ := strings.Cut(contents(t, "docs/architecture.md"), "<!-- storeys -->\n```\n")
	picture, _, _ := strings.Cut(rest, "```")
	var drawn [][]string
	for line := range strings.Lines(picture) {
		line, _, _ = strings.Cut(line, "#")
		if names := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" |+-\n", r) }); len(names) > 0 {
			drawn = append(drawn, names)
		}
	}
	var want [][]string
	for _, storey := range storeys {
		var names []string
		for _, room := range storey {
			names = append(names, room.name)
		}
		want = append(want, names)
	}
	if !slices.EqualFunc(drawn, want, slices.Equal[[]string]) {
		t.Errorf("docs/architecture.md draws %v, and tools/tidy/tables_test.go has %v", drawn, want)
	}
}

func orNone(may string) string {
	if may == "" {
		return "it may import none of our packages"
	}
	return "it may import " + strings.Join(strings.Fields(may), ", ")
}

// floorOf returns the most specific row: that of the package itself, or else the longest pattern.
func floorOf(pkg string) (floor, bool) {
	var best floor
	for _, row := range floors {
		if row.pkg == pkg {
			return row, true
		}
		if matches(row.pkg, pkg) && len(row.pkg) > len(best.pkg) {
			best = row
		}
	}
	return best, best.pkg != ""
}

// sdkIsLight follows our own imports from the SDK's packages, and refuses third-party packages that they may not reach.
func sdkIsLight(t *tree) []complaint {
	byPackage := map[string][]*file{}
	for _, f := range t.shipped() {
		byPackage[f.pkg] = append(byPackage[f.pkg], f)
	}
	var found []complaint
	way := map[string]string{} // by package that is reached: how, such as "framework > internal/wire"
	var queue []string
	for _, f := range t.shipped() {
		if within(sdk, f.pkg) && way[f.pkg] == "" {
			way[f.pkg] = f.pkg
			queue = append(queue, f.pkg)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, f := range byPackage[queue[0]] {
			for _, spec := range f.Imports {
				name := imported(spec)
				target, own := ours(name)
				switch {
				case own && way[target] == "":
					way[target] = way[f.pkg] + " > " + target
					queue = append(queue, target)
				case !own && !fromStandard(name) && !within(wall, name):
					found = append(found, complaint{t.at(spec),
						fmt.Sprintf("the SDK would bring %s to all its users (%s)", name, way[f.pkg]),
						"only the standard library, gRPC and protobuf: move what needs it out of the SDK's way"})
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b complaint) int { return strings.Compare(a.at, b.at) })
	return found
}

// processIsTheProgramsOwn allows flags, environment, signals and the end of the process only in the programs.
func processIsTheProgramsOwn(t *tree) []complaint {
	var found []complaint
	for _, f := range t.shipped() {
		if within(programs, f.pkg) || within(exampleMains, f.pkg) && f.Name.Name == "main" {
			continue
		}
		refuse := func(at, what string) {
			found = append(found, complaint{at, f.pkg + " uses " + what,
				"flags, environment, signals and exits belong to tender/internal/cli and the examples' main: take a Config, return an error"})
		}
		for _, spec := range f.Imports {
			if some, known := process[imported(spec)]; known && some == "" {
				refuse(t.at(spec), imported(spec))
			}
		}
		f.uses(func(node ast.Node, from, name string) {
			if has(process[from], name) && !has(processAllowed[f.pkg], name) {
				refuse(t.at(node), from+"."+name)
			}
		})
	}
	return found
}
