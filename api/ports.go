package api

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

func (t *Task) checkPorts() error {
	if len(t.Ports) > LabelsMax {
		return fmt.Errorf("%d named ports, at most %d are allowed", len(t.Ports), LabelsMax)
	}
	asked := t.Resources.RangesOf("ports")
	named := make(map[string]string, len(t.Ports)) // name of the port, by its environment variable
	numbered := make(map[uint64]string, len(t.Ports))
	for _, name := range sortedKeys(t.Ports) {
		number := uint64(t.Ports[name])
		if err := CheckPortName(name); err != nil {
			return err
		}
		variable := PortVariable(name)
		if other, taken := named[variable]; taken {
			return fmt.Errorf("ports %q and %q are both told as %s; rename one of them", other, name, variable)
		}
		named[variable] = name
		switch {
		case number == 0:
			return fmt.Errorf("port %q must be a number from 1 to 65535", name)
		case !asked.Contains(Ranges{{number, number}}):
			return fmt.Errorf("port %q is %d, which is not among the task's resources; ask for ports:[%d]", name, number, number)
		case numbered[number] != "":
			return fmt.Errorf("ports %q and %q are both %d, where the task can listen once; give each a number of its own", numbered[number], name, number)
		}
		numbered[number] = name
	}
	return nil
}

// CheckPortName reports why name can't name a port of a task, or nil. It is an identifier that begins with a letter or
// a digit.
func CheckPortName(name string) error {
	if err := CheckID("a port's name", name); err != nil {
		return err
	}
	if first := name[0]; !isLetter(first) && !isDigit(first) {
		return fmt.Errorf("a port's name is %q; it must begin with a letter or a digit, such as http", name)
	}
	return nil
}

// PortVariable returns the name of the environment variable that tells a task the number of the port: TENDER_TASK_PORT_
// and the port's name in upper case, with '_' for every character that is not a letter or a digit.
func PortVariable(name string) string {
	return "TENDER_TASK_PORT_" + strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (isLetter(byte(r)) || isDigit(byte(r))) {
			return unicode.ToUpper(r)
		}
		return '_'
	}, name)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
