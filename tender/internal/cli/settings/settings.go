// Package settings merges what flags, the environment and a file say about a daemon. The flags are the one table: each
// has a variable TENDER_NAME and a key name in the file. A flag overrules the environment, which overrules the file,
// which overrules the default. It reads no file and no environment itself.
package settings

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"

	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/words"
)

// prefix is the beginning of every environment variable.
const prefix = "TENDER_"

// Variable returns the environment variable of a flag: TENDER_DATA_DIR for --data-dir.
func Variable(flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// File is a configuration file that was read.
type File struct {
	Name string
	Text string
}

// Merge sets every flag in names that was not given on the command line, from the environment or else from the file. An
// error names the variable, or the file, line and key, and what would be right.
func Merge(flags *pflag.FlagSet, names []string, lookup func(string) (string, bool), file *File) error {
	values, err := file.values(names)
	if err != nil {
		return err
	}
	for _, name := range names {
		flag := flags.Lookup(name)
		if flag == nil || flag.Changed {
			continue
		}
		if text, ok := lookup(Variable(name)); ok {
			if err := set(flag, []string{text}); err != nil {
				return fmt.Errorf("%s: %w", Variable(name), err)
			}
			continue
		}
		if value, ok := values[name]; ok {
			if err := set(flag, value.texts); err != nil {
				return fmt.Errorf("%s:%d: %s: %w", file.Name, value.line, name, err)
			}
		}
	}
	return nil
}

// set sets the flag to the texts: the first replaces the default, the others are added.
func set(flag *pflag.Flag, texts []string) error {
	if list, ok := flag.Value.(pflag.SliceValue); ok && len(texts) == 0 {
		return list.Replace(nil)
	}
	for _, text := range texts {
		if err := flag.Value.Set(text); err != nil {
			return fmt.Errorf("%q is wrong: %w; write %s", text, err, wanted(flag))
		}
	}
	flag.Changed = true
	return nil
}

// wanted says in words which values a flag takes.
func wanted(flag *pflag.Flag) string {
	switch flag.Value.Type() {
	case "bool":
		return "true or false"
	case "int", "int32", "int64", "uint", "uint64":
		return "a whole number"
	case "float64":
		return "a number"
	case "duration":
		return "a time such as 5s or 1m30s"
	case "stringToString":
		return "NAME=VALUE, separated by commas"
	}
	return "what --help shows for --" + flag.Name
}

// value is the file's value for a key.
type value struct {
	texts []string
	line  int
}

func (f *File) values(names []string) (map[string]value, error) {
	if f == nil {
		return nil, nil
	}
	var table map[string]any
	if _, err := toml.Decode(f.Text, &table); err != nil {
		return nil, f.unreadable(err)
	}
	values := map[string]value{}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		line := f.line(key)
		if !slices.Contains(names, key) {
			return nil, fmt.Errorf("%s:%d: key %q is unknown%s", f.Name, line, key, orClosest(key, names))
		}
		texts, err := textsOf(table[key])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", f.Name, line, key, err)
		}
		values[key] = value{texts, line}
	}
	return values, nil
}

func (f *File) unreadable(err error) error {
	if parse := (toml.ParseError{}); errors.As(err, &parse) {
		return fmt.Errorf("%s:%d: %s; a line reads NAME = VALUE, as TOML does", f.Name, parse.Position.Line, parse.Message)
	}
	return fmt.Errorf("%s: %w", f.Name, err)
}

// line finds the line of a key, which the decoder does not tell.
func (f *File) line(key string) int {
	number := 0
	for line := range strings.Lines(f.Text) {
		number++
		word := strings.TrimLeft(line, " \t[")
		word = strings.TrimLeft(word, `"'`)
		rest, ok := strings.CutPrefix(word, key)
		if ok && strings.HasPrefix(strings.TrimLeft(rest, `"' `+"\t"), "=") || ok && strings.HasPrefix(rest, "]") || ok && strings.HasPrefix(rest, ".") {
			return number
		}
	}
	return 1
}

// textsOf returns a value in the form in which a flag takes it.
func textsOf(value any) ([]string, error) {
	switch value := value.(type) {
	case []any:
		var texts []string
		for _, item := range value {
			text, err := textOf(item)
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
		return texts, nil
	case map[string]any:
		var texts []string
		for _, key := range slices.Sorted(maps.Keys(value)) {
			text, err := textOf(value[key])
			if err != nil {
				return nil, err
			}
			texts = append(texts, key+"="+text)
		}
		return texts, nil
	}
	text, err := textOf(value)
	return []string{text}, err
}

func textOf(value any) (string, error) {
	switch value := value.(type) {
	case string:
		return value, nil
	case bool:
		return strconv.FormatBool(value), nil
	case int64:
		return strconv.FormatInt(value, 10), nil
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64), nil
	case time.Time:
		return "", fmt.Errorf("a date is no value here; write it in quotes")
	}
	return "", fmt.Errorf("a nested value is too much; write a text, a number, true, false, or a list of them")
}

func orClosest(key string, names []string) string {
	if closest := words.Closest(strings.ReplaceAll(key, "_", "-"), names); closest != "" {
		return fmt.Sprintf("; did you mean %q?", closest)
	}
	return "; keys are the names of the flags: " + strings.Join(slices.Sorted(slices.Values(names)), ", ")
}

// Listen says where a process listens that is not a master or an agent, and where others reach it.
type Listen struct {
	Bind      string
	Port      int
	Advertise string
}

// Check returns the address of --bind, or what is wrong with the flags. others are those who have to reach the process.
func (l Listen) Check(others string) (net.IP, error) {
	ip := net.ParseIP(l.Bind)
	switch {
	case ip == nil:
		return nil, fmt.Errorf("--bind %q is not an address of this machine; write an IP such as 127.0.0.1 or 0.0.0.0", l.Bind)
	case ip.IsUnspecified() && l.Advertise == "":
		return nil, fmt.Errorf("--bind %s is all addresses of this machine, and at which of them %s reach it nobody can tell; say it: --advertise HOST", l.Bind, others)
	case l.Port < 0 || l.Port > 65535:
		return nil, fmt.Errorf("--port is %d; write 1 to 65535, or 0 for any", l.Port)
	}
	if l.Advertise != "" {
		if err := transport.CheckAdvertised(l.Advertise); err != nil {
			return nil, fmt.Errorf("--advertise: %w", err)
		}
	}
	return ip, nil
}
