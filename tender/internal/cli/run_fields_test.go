package cli_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tenderhq/tender/framework/jobs/jobfile"
)

// onlyInRun are the flags of 'tender run' that no field of a job file says; docs/jobs.md says why.
var onlyInRun = []string{"--prefer", "--detach", "--retry", "--quiet"}

// TestEveryFlagOfRunIsDecided: each flag of 'tender run' is a field of job files, or is listed as one that is not; and
// the table of fields names no flag that there is not.
func TestEveryFlagOfRunIsDecided(t *testing.T) {
	help, err := os.ReadFile("testdata/help.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, about, is := strings.Cut(string(help), "\n$ tender run --help\n")
	about, _, _ = strings.Cut(about, "\n$ ")
	about, _, _ = strings.Cut(about, "\nGlobal Flags:")
	var flags []string
	for _, match := range regexp.MustCompile(`(?m)^ {2,6}(?:-[a-z], )?(--[a-z-]+)`).FindAllStringSubmatch(about, -1) {
		flags = append(flags, match[1])
	}
	if !is || len(flags) < 20 {
		t.Fatalf("the help of 'tender run' has %d flags", len(flags))
	}
	var decided []string
	for _, field := range jobfile.Fields() {
		flag, _, _ := strings.Cut(field.Flag, " ")
		decided = append(decided, flag)
		if strings.HasPrefix(flag, "--") && !slices.Contains(flags, flag) {
			t.Errorf("%s stands for %s, which 'tender run' has not", field.Name, flag)
		}
	}
	for _, flag := range flags {
		if !slices.Contains(decided, flag) && !slices.Contains(onlyInRun, flag) && flag != "--help" {
			t.Errorf("no field of a job file says %s; decide, and say so in fields.txt or in docs/jobs.md", flag)
		}
	}
	page, err := os.ReadFile("../../../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range onlyInRun {
		if !strings.Contains(string(page), "`"+flag+"`") {
			t.Errorf("docs/jobs.md does not say why a job file can't say %s", flag)
		}
	}
}

// What is next to nothing, as a job file says it.
var (
	numbers = []string{"0", "0.0004", "-1"}
	times   = []string{`"0s"`, `"-1s"`}
	texts   = []string{`""`}
)

// nothings has, for each field that is a number, a time or a text and that 'tender run' can say too, its flag, a job file
// with it, and what next to nothing is.
var nothings = map[string]struct {
	flag, file string
	values     []string
}{
	"task.cpus":            {"--cpus=%s", inTask(`"cpus":%s`), numbers},
	"task.mem":             {"--mem=%s", inTask(`"mem":%s`), numbers},
	"task.disk":            {"--disk=%s", inTask(`"disk":%s`), numbers},
	"task.gpus":            {"--gpus=%s", inTask(`"gpus":%s`), numbers},
	"task.resources":       {"--resources=licenses:%s", inTask(`"resources":{"licenses":%s}`), numbers},
	"task.limits.cpus":     {"--limit=cpus=%s", inTask(`"limits":{"cpus":%s}`), numbers},
	"task.limits.mem":      {"--limit=mem=%s", inTask(`"limits":{"mem":%s}`), numbers},
	"task.limits.pids":     {"--limit=pids=%s", inTask(`"limits":{"pids":%s}`), numbers},
	"task.checks.failures": {"--check=failures=%s,shell:x", inTask(`"checks":[{"command":"x","failures":%s}]`), numbers},
	"batch.completions":    {"--instances=%s", `{"name":"a","type":"batch","task":{"command":"x"},"batch":{"completions":%s}}`, numbers},
	"task.checks.interval": {"--check=interval=%s,shell:x", inTask(`"checks":[{"command":"x","interval":%s}]`), times},
	"task.checks.timeout":  {"--check=timeout=%s,shell:x", inTask(`"checks":[{"command":"x","timeout":%s}]`), times},
	"task.checks.grace":    {"--check=grace=%s,shell:x", inTask(`"checks":[{"command":"x","grace":%s}]`), times},
	"task.kill_grace":      {"--grace=%s", inTask(`"kill_grace":%s`), times},
	"task.timeout":         {"--timeout=%s", inTask(`"timeout":%s`), times},
	"name":                 {"--name=%s", `{"name":%s,"type":"batch","task":{"command":"x"}}`, texts},
	"role":                 {"--role=%s", `{"name":"a","type":"batch","role":%s,"task":{"command":"x"}}`, texts},
	"task.image":           {"--image=%s", inTask(`"image":%s`), texts},
	"task.user":            {"--user=%s", inTask(`"user":%s`), texts},
	"task.dir":             {"--dir=%s", inTask(`"dir":%s`), texts},
	"task.constraint":      {"--constraint=%s", inTask(`"constraint":%s`), texts},
	"task.spread":          {"--spread=%s", inTask(`"spread":%s`), texts},
	"task.kill_signal":     {"--kill-signal=%s", inTask(`"kill_signal":%s`), texts},
}

// inTask is a job file with these fields of its task.
func inTask(fields string) string {
	return `{"name":"a","type":"batch","task":{"command":"x",` + fields + `}}`
}

// noNothing are fields that have a flag and nothing to compare, and why.
var noNothing = regexp.MustCompile(`^task\.(` +
	`attempts` + // one more than --restart says
	`|lost_after` + // 0 of --unreachable-timeout waits for ever, as a negative time does in a job file
	`|(files|secrets|checks\.(http|grpc))\..*|checks\.(command|tcp|http|grpc|readiness)` + // parts of one word of a flag
	`|command|argv|env|ports|labels|revocable|limits|files|secrets|volumes|checks` + // no numbers, times or texts
	`)$`)

// TestNothingIsOneRule: what is zero, negative, empty or too fine is refused by 'tender run' where it is refused in a job
// file, and taken where it is taken. One decoder reads job files, what is sent over HTTP, and what the SDK sends.
func TestNothingIsOneRule(t *testing.T) {
	for _, field := range jobfile.Fields() {
		said, is := nothings[field.Name]
		if !is && field.Flag != "" && !noNothing.MatchString(field.Name) {
			t.Errorf("%s is %s in 'tender run'; write into this test what says nothing there", field.Name, field.Flag)
		}
		for _, value := range said.values {
			_, wrong := jobfile.DecodeJSON(fmt.Appendf(nil, said.file, value))
			flag := fmt.Sprintf(said.flag, strings.Trim(value, `"`))
			var stderr string
			synctest.Test(t, func(t *testing.T) { _, stderr, _ = (&shell{dial: nobody}).run(t, "run", flag, "--", "true") })
			if taken := strings.Contains(stderr, "no master answers"); taken != (wrong == nil) {
				t.Errorf("a job file with %s = %s: %v\n'tender run %s': %s", field.Name, value, wrong, flag, stderr)
			}
		}
	}
}
