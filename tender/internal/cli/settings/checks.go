package settings

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// ParseCheck reads a check of a task: [OPTION,...]KIND:WHAT. Everything after the kind's colon is WHAT, including
// commas.
func ParseCheck(text string) (api.Check, error) {
	var check api.Check
	for rest := text; ; {
		option, behind, more := strings.Cut(rest, ",")
		if kind, _, is := strings.Cut(option, ":"); is && !strings.Contains(kind, "=") {
			_, what, _ := strings.Cut(rest, ":")
			return check, checkOf(&check, kind, what)
		}
		if err := checkOption(&check, option); err != nil {
			return check, err
		}
		if !more {
			return check, fmt.Errorf("%q says nothing to check; end it with http:PORT/PATH, tcp:PORT, grpc:PORT or shell:LINE", text)
		}
		rest = behind
	}
}

func checkOf(check *api.Check, kind, what string) error {
	if what == "" {
		return fmt.Errorf("%s: says nothing to check; write http:PORT/PATH, tcp:PORT, grpc:PORT or shell:LINE", kind)
	}
	port, path, _ := strings.Cut(what, "/")
	switch kind {
	case "http":
		check.HTTP = &api.HTTPCheck{Port: port, Path: "/" + path}
	case "tcp":
		check.TCP = &api.TCPCheck{Port: what}
	case "grpc":
		check.GRPC = &api.GRPCCheck{Port: port, Service: path}
	case "shell":
		check.Command = &api.Command{Shell: what}
	default:
		return Unknown("kind of check", kind, []string{"http", "tcp", "grpc", "shell"})
	}
	return nil
}

func checkOption(check *api.Check, option string) (err error) {
	name, value, _ := strings.Cut(option, "=")
	switch name {
	case "ready":
		check.Readiness = true
	case "interval":
		check.Interval, err = time.ParseDuration(value)
	case "timeout":
		check.Timeout, err = time.ParseDuration(value)
	case "grace":
		check.Grace, err = time.ParseDuration(value)
	case "failures":
		check.Failures, err = strconv.Atoi(value)
	default:
		return fmt.Errorf("%w; behind the options stands what is checked: http:PORT/PATH, tcp:PORT, grpc:PORT or shell:LINE",
			Unknown("option", name, []string{"ready", "interval", "timeout", "grace", "failures"}))
	}
	if err != nil {
		return fmt.Errorf("%s is %q; write a time such as 5s, and failures as a number", name, value)
	}
	// In an api.Check 0 means the default, which nobody means who writes it.
	if name == "interval" && check.Interval == 0 || name == "timeout" && check.Timeout == 0 || name == "grace" && check.Grace == 0 ||
		name == "failures" && check.Failures == 0 {
		return fmt.Errorf("%s is %s; write more than that, or leave it out", name, value)
	}
	return nil
}

// ParseLimits reads cpus=NUMBER, mem=MB or pids=NUMBER for each limit of a task.
func ParseLimits(texts []string) (limits api.Limits, err error) {
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "=")
		switch name {
		case "cpus":
			limits.CPUs, err = api.ParseMilli(value)
		case "mem":
			limits.Mem, err = api.ParseMilli(value)
		case "pids":
			limits.Pids, err = strconv.ParseInt(value, 10, 64)
		default:
			return limits, Unknown("limit", name, []string{"cpus", "mem", "pids"})
		}
		if err != nil {
			return limits, fmt.Errorf("%q is no limit; write cpus=2, mem=256 for megabytes, or pids=100", text)
		}
		if strings.Trim(value, "0.") == "" { // in api.Limits 0 means none, which nobody means who writes it
			return limits, fmt.Errorf("%s is %s; write more than that, or leave it out", name, value)
		}
	}
	return limits, nil
}

// ParseSecrets reads NAME=ROLE/NAME for each secret of a task: variables that hold one, and files.
func ParseSecrets(variables, files []string) (secrets []api.Secret, err error) {
	for _, text := range variables {
		name, id, _ := strings.Cut(text, "=")
		secrets = append(secrets, api.Secret{ID: api.SecretID(id), Env: name})
	}
	for _, text := range files {
		name, id, _ := strings.Cut(text, "=")
		secrets = append(secrets, api.Secret{ID: api.SecretID(id), File: name})
	}
	for _, secret := range secrets {
		if err := secret.Check(); err != nil {
			return nil, fmt.Errorf("%w; write NAME=ROLE/NAME, such as PASSWORD=eng/etl/db", err)
		}
	}
	return secrets, nil
}
