package jobcmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/jobfile"
	"github.com/tenderhq/tender/internal/calendar"
)

// jobBytesMax limits the size of a job's file.
const jobBytesMax = 1 << 20

// readJob reads a job's file in TOML or JSON; "-" is standard input. Mistakes are reported with their lines.
func readJob(name string, stdin io.Reader, now time.Time) (job jobs.Job, err error) {
	var text []byte
	if name == "-" {
		name = "standard input"
		text, err = io.ReadAll(io.LimitReader(stdin, jobBytesMax+1))
	} else {
		text, err = os.ReadFile(name)
	}
	switch {
	case err != nil:
		return job, err
	case len(text) > jobBytesMax:
		return job, fmt.Errorf("%s: it has more than %d bytes, which no job has", name, jobBytesMax)
	}
	tree, lines, err := parse(string(text))
	if err != nil {
		return job, fmt.Errorf("%s:%w", name, err)
	}
	if job, err = jobfile.Decode(tree); err == nil {
		err = cmp.Or(job.CheckSchedule(calendar.Next, now), job.CheckConstraints(constraint.OfOffer))
	}
	var problems jobs.Problems
	if !errors.As(err, &problems) {
		return job, err
	}
	slices.SortStableFunc(problems, func(a, b jobs.Problem) int { return cmp.Compare(lines.of(a.Field), lines.of(b.Field)) })
	told := make([]error, len(problems))
	for i, problem := range problems {
		told[i] = fmt.Errorf("%s:%d: %s", name, lines.of(problem.Field), problem)
	}
	return job, errors.Join(told...)
}

// parse reads JSON if the text begins with a brace, and otherwise TOML.
func parse(text string) (tree map[string]any, lines lines, err error) {
	text = strings.TrimPrefix(text, jobfile.Mark)
	begin := strings.TrimSpace(text)
	if strings.HasPrefix(begin, "[") && json.Valid([]byte(text)) {
		return nil, nil, fmt.Errorf("1: it is a list; a file holds one job, an object of its fields")
	}
	if strings.HasPrefix(begin, "{") {
		tree, err = jobfile.ParseJSON([]byte(text))
		var syntax *json.SyntaxError
		var twice jobs.Problems
		switch {
		case errors.As(err, &syntax):
			return nil, nil, fmt.Errorf("%d: this is no JSON: %w", lineAt(text, syntax.Offset), err)
		case errors.As(err, &twice):
			return nil, nil, fmt.Errorf("%d: %w", linesOfJSON(text).of(twice[0].Field), err)
		case err != nil:
			return nil, nil, fmt.Errorf("1: %w", err)
		}
		return tree, linesOfJSON(text), nil
	}
	_, err = toml.Decode(text, &tree)
	var syntax toml.ParseError
	if errors.As(err, &syntax) {
		return nil, nil, fmt.Errorf("%d: this is no TOML: %s", syntax.Position.Line, syntax.Message)
	} else if err != nil {
		return nil, nil, fmt.Errorf("1: %w", err)
	}
	return tree, linesOfTOML(text), nil
}

// lines holds the lines of the fields.
type lines map[string]int

// of returns the line of a field, or of the first that is written of it, or of the nearest field that contains it.
func (l lines) of(field string) int {
	for field != "" {
		if line, is := l[field]; is {
			return line
		}
		first := 0
		for name, line := range l { // order: irrelevant because the smallest is taken
			if (strings.HasPrefix(name, field+".") || strings.HasPrefix(name, field+"[")) && (first == 0 || line < first) {
				first = line
			}
		}
		if first > 0 {
			return first
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return 1
}

func lineAt(text string, offset int64) int {
	return 1 + strings.Count(text[:min(int(offset), len(text))], "\n")
}

// linesOfTOML finds the lines of keys in their tables. A key in an inline table is found by the line of that table.
func linesOfTOML(text string) lines {
	found, table, items := lines{}, "", map[string]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if list, is := strings.CutPrefix(line, "[["); is {
			name, _, _ := strings.Cut(list, "]]")
			name = strings.TrimSpace(name)
			table = fmt.Sprintf("%s[%d]", name, items[name])
			items[name]++
			found[table] = number
			continue
		}
		if head, is := strings.CutPrefix(line, "["); is && !strings.Contains(line, "=") {
			name, _, _ := strings.Cut(head, "]")
			table = strings.TrimSpace(name)
			if first, rest, is := strings.Cut(table, "."); is && items[first] > 0 { // [steps.task] below [[steps]]
				table = fmt.Sprintf("%s[%d].%s", first, items[first]-1, rest)
			}
			found[table] = number
			continue
		}
		key, _, is := strings.Cut(line, "=")
		key = strings.Trim(strings.TrimSpace(key), `"'`)
		if !is || strings.HasPrefix(key, "#") || strings.ContainsAny(key, " \t[{") {
			continue
		}
		if table != "" {
			key = table + "." + key
		}
		if _, known := found[key]; !known {
			found[key] = number
		}
	}
	return found
}

// linesOfJSON finds the lines of keys by reading the tokens.
func linesOfJSON(text string) lines {
	w := jsonWalk{text: text, from: json.NewDecoder(strings.NewReader(text)), found: lines{}}
	w.value("")
	return w.found
}

type jsonWalk struct {
	text  string
	from  *json.Decoder
	found lines
}

func (w *jsonWalk) value(field string) {
	token, err := w.from.Token()
	if err != nil {
		return
	}
	switch token {
	case json.Delim('{'):
		for w.from.More() {
			key, err := w.from.Token()
			if err != nil {
				return
			}
			name := fmt.Sprint(key)
			if field != "" {
				name = field + "." + name
			}
			w.found[name] = lineAt(w.text, w.from.InputOffset())
			w.value(name)
		}
	case json.Delim('['):
		for i := 0; w.from.More(); i++ {
			w.value(fmt.Sprintf("%s[%d]", field, i))
		}
	default:
		return
	}
	_, _ = w.from.Token() // the end, which exists because the text was parsed
}
