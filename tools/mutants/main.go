// Command mutants asks whether the simulation and the tests would notice a fault. It puts one seeded bug after the other into
// the sources, as an overlay of the compiler, so that no file of the tree changes, and runs what is expected to find
// it: the simulation of the joined cores with new seeds, a named test where the simulation can't see it by nature, or
// the count of what a step costs where nothing is wrong but that.
//
//	go run ./tools/mutants [-only NAME] [-seeds 500]
//
// The bugs are in mutants.txt. A bug that nothing finds, or that no longer fits the sources, fails the run.
package main

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

//go:embed mutants.txt
var list string

// simulation is the package whose seeds find most mutants.
const simulation = "./framework/frameworktest/internal/sim"

func main() {
	only := flag.String("only", "", "run only mutants whose name contains this")
	seeds := flag.Int("seeds", 500, "how many seeds the simulation may take")
	from := flag.Int("from", 1, "the first seed")
	flag.Parse()
	mutants, err := parse(list)
	if err != nil {
		fail(err)
	}
	survivors, run := 0, 0
	for _, m := range mutants {
		if !strings.Contains(m.name, *only) {
			continue
		}
		run++
		began := time.Now()
		found, err := m.find(*from, *seeds)
		if err != nil {
			fail(fmt.Errorf("%s: %w", m.name, err))
		}
		if found == "" {
			survivors++
			found = "SURVIVES"
		}
		fmt.Printf("%-44s %-40s %4.0f s\n", m.name, found, time.Since(began).Seconds())
	}
	fmt.Printf("%d mutants, %d survive\n", run, survivors)
	if survivors > 0 || run == 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	os.Exit(1)
}

// mutant is one seeded bug.
type mutant struct {
	name     string
	file     string // relative to the root of the module
	from, to string // lines of the file, and what stands there instead
	pkg      string // the package whose test finds it; "" = the simulation or the count of costs finds it
	test     string // the name of that test
	path     string // the path of tools/cost that becomes dearer; "" = it is another kind of bug
}

// parse reads the list. Each mutant begins with "== NAME"; "file PATH" and "found by sim", "found by PACKAGE TEST" or
// "found by cost PATH" follow, then the lines that are taken out, with a minus, and those that are put in, with a plus.
func parse(text string) ([]mutant, error) {
	var all []mutant
	for number, line := range strings.Split(text, "\n") {
		if name, is := strings.CutPrefix(line, "== "); is {
			all = append(all, mutant{name: name})
			continue
		}
		if len(all) == 0 {
			continue // what the list is about
		}
		m := &all[len(all)-1]
		words := strings.Fields(line)
		switch {
		case line == "":
		case strings.HasPrefix(line, "-"):
			m.from += line[1:] + "\n"
		case strings.HasPrefix(line, "+"):
			m.to += line[1:] + "\n"
		case len(words) == 2 && words[0] == "file":
			m.file = words[1]
		case line == "found by sim":
		case strings.HasPrefix(line, "found by cost "):
			m.path = strings.TrimPrefix(line, "found by cost ")
		case len(words) == 4 && words[0] == "found" && words[1] == "by":
			m.pkg, m.test = words[2], words[3]
		default:
			return nil, fmt.Errorf("mutants.txt, line %d: %q is neither of file, found by, - and +", number+1, line)
		}
	}
	return all, nil
}

// apply returns the file with the bug. The lines that are taken out must be there exactly once.
func (m mutant) apply(source string) (string, error) {
	if count := strings.Count(source, m.from); m.from == "" || count != 1 {
		return "", fmt.Errorf("the lines that it takes out are %d times in %s; they must be there once", count, m.file)
	}
	return strings.Replace(source, m.from, m.to, 1), nil
}

// find builds the finder with the bug and runs it; it returns what has found the bug, "" if nothing has.
func (m mutant) find(from, seeds int) (string, error) {
	folder, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	if m.path != "" {
		return m.count(folder)
	}
	overlay, err := m.overlay(folder)
	if err != nil {
		return "", err
	}
	pkg, run := simulation, []string{"-test.run=^TestSeeds$", "-from", fmt.Sprint(from), "-count", fmt.Sprint(seeds)}
	if m.pkg != "" {
		pkg, run = m.pkg, []string{"-test.run=^" + m.test + "$"}
	}
	program := filepath.Join(folder, "finder.test")
	if out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", program, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not build: %w\n%s", err, out)
	}
	finder := exec.Command(program, append(run, "-test.timeout=10m")...)
	finder.Dir = pkg
	out, err := finder.CombinedOutput()
	switch seed := failedSeed.FindString(string(out)); {
	case err == nil && strings.Contains(string(out), "no tests to run"):
		return "", fmt.Errorf("there is no test %s in %s", m.test, m.pkg)
	case err == nil:
		return "", nil
	case m.pkg == "" && strings.Contains(string(out), "panic: test timed out"):
		return "", fmt.Errorf("%d seeds took longer than 10 minutes and found nothing: take fewer (-seeds), or a machine with less to do", seeds)
	case m.pkg != "":
		return m.test, nil
	case seed == "":
		return "a panic, or no seed is named", nil
	default:
		return seed, nil
	}
}

// grows is what the count of costs says of a path that is dearer than it may be.
var grows = regexp.MustCompile(`grows +[0-9.]+ times`)

// count has the costs of the path counted in a copy of the sources that has the bug: coverage, whose counters are read,
// does not know overlays.
func (m mutant) count(folder string) (string, error) {
	if err := copySources(folder); err != nil {
		return "", err
	}
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	changed, err := m.apply(string(source))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(folder, m.file), []byte(changed), 0o600); err != nil {
		return "", err
	}
	counter := exec.Command("go", "run", "./tools/cost", "-only", m.path)
	counter.Dir = folder
	out, err := counter.CombinedOutput()
	switch said := grows.FindString(string(out)); {
	case said == "":
		return "", fmt.Errorf("no cost of %q was counted: %w\n%s", m.path, err, out)
	case err == nil:
		return "", nil
	default:
		return said, nil
	}
}

// copySources copies the module, without folders that are hidden or built.
func copySources(folder string) error {
	return filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || path == "bin"):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(folder, path), 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, path), data, 0o600)
	})
}

var failedSeed = regexp.MustCompile(`seed \d+`)

// overlay writes the changed file and the list of changed files, and returns where that list is.
func (m mutant) overlay(folder string) (string, error) {
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	changed, err := m.apply(string(source))
	if err != nil {
		return "", err
	}
	with := filepath.Join(folder, filepath.Base(m.file))
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: with}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(with, []byte(changed), 0o600); err != nil {
		return "", err
	}
	return list, os.WriteFile(list, text, 0o600)
}
