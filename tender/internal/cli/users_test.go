package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a command of a story and what it is to print.
type block struct {
	command string
	repeat  bool   // until it prints that
	want    string // "…" stands for anything
}

// storyOf reads a story: comments, and blocks that are a line "$ COMMAND" or "until $ COMMAND" and the lines below it.
// A last line "exit CODE" is the exit code, which is otherwise 0.
func storyOf(text string) (blocks []block) {
	for line := range strings.Lines(text) {
		command, repeat := strings.CutPrefix(line, "until ")
		if command, is := strings.CutPrefix(command, "$ "); is {
			blocks = append(blocks, block{command: strings.TrimSpace(command), repeat: repeat})
		} else if line != "\n" && !strings.HasPrefix(line, "# ") {
			blocks[len(blocks)-1].want += line
		}
	}
	return blocks
}

// matches says whether an output is what the block wants.
func (b block) matches(output string) bool {
	parts := strings.Split(b.want, "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile("^(?s:" + strings.Join(parts, ".*") + ")$").MatchString(output)
}

// TestWhatUsersMet types what users of the first builds met, and reads what is printed now.
func TestWhatUsersMet(t *testing.T) {
	t.Parallel()
	playStory(t, "testdata/users.txt", "--agents", "2")
}

// TestWhatPeopleWithJobsMet types what people from other schedulers met.
func TestWhatPeopleWithJobsMet(t *testing.T) {
	t.Parallel()
	playStory(t, "testdata/jobs.txt", "--agents", "2", "--jobs=true")
}

// playStory types a story into a shell, beside a cluster of 'tender dev' with these flags.
func playStory(t *testing.T, file string, dev ...string) {
	t.Helper()
	needsBinary(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	d := startDev(t, dev...)
	home := t.TempDir()
	for _, one := range storyOf(string(text)) {
		shell := func() string {
			command := exec.Command("sh", "-c", one.command)
			command.Dir = home
			command.Env = append(os.Environ(), append(d.env, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "COLUMNS=0")...)
			output, err := command.CombinedOutput()
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				return string(output) + strings.Replace(exit.String(), "exit status", "exit", 1) + "\n"
			}
			if err != nil {
				t.Fatal(err)
			}
			return string(output)
		}
		if one.repeat {
			until(t, one.command+" prints "+one.want, func() bool { return one.matches(shell()) })
		} else if output := shell(); !one.matches(output) {
			t.Errorf("$ %s\nprints\n%s\nand not\n%s", one.command, output, one.want)
		}
	}
}
