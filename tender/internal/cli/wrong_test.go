package cli_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// nobody refuses every connection.
func nobody(context.Context, string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

func TestWrongInputIsToldInOneSentence(t *testing.T) {
	for _, test := range []struct {
		args string
		env  map[string]string
		want []string
	}{
		{args: "gte agents", want: []string{`command "gte"`, `"get"`}},
		{args: "bananas", want: []string{`command "bananas"`, "describe, "}},
		{args: "help gte", want: []string{`command "gte"`, `"get"`}},
		{args: "jobs status web", want: []string{"'tender job status web'"}},
		{args: "maintenance set a1", want: []string{"when the window begins", "--start now"}},
		{args: "maintenance set a1 --start soon", want: []string{"--start", `"soon"`, "22:00"}},
		{args: "audit --since soon", want: []string{"--since", `"soon"`, "14:00"}},
		{args: "get", want: []string{"needs KIND", "tender get KIND [ID]"}},
		{args: "get agnets", want: []string{`kind "agnets"`, `"agents"`}},
		{args: "get agents a b", want: []string{`"b" is one word too many`}},
		{args: "get agents --ouptut json", want: []string{"no flag --ouptut", "--output"}},
		{args: "get agents -z", want: []string{"no flag -z", "--help"}},
		{args: "get agents -o yaml", want: []string{"--output", `"yaml"`, "table, wide, json, name"}},
		{args: "describe agent a -o table", want: []string{"--output", `"table"`, "text, json"}},
		{args: "explain f -o yaml", want: []string{"--output", `"yaml"`, "text, json"}},
		{args: "job status j -o wide", want: []string{"--output", `"wide"`, "text, json"}},
		{args: "ca status -o jsno", want: []string{"--output", `"jsno"`, `"json"`}},
		{args: "get agents -o jsn", want: []string{`"jsn"`, `"json"`}},
		{args: "get agents --limit x", want: []string{"--limit", `"x"`}},
		{args: "get agents --limit -1", want: []string{"--limit is -1"}},
		{args: "get agents --all", want: []string{"--all means nothing for agents"}},
		{args: "get agents --master 127.0.0.1:99999", want: []string{"--master", "127.0.0.1:99999", "ports are 1 to 65535"}},
		{args: "jobs --advertise m1:5080", want: []string{"--advertise", `"m1:5080" is neither`, "node7.example"}},
		{args: "get agents --master nonsense", want: []string{"--master", `"nonsense"`, "HOST:PORT"}},
		{args: "get agents", env: map[string]string{"TENDER_MASTER": "a b:1"}, want: []string{"TENDER_MASTER", "HOST:PORT"}},
		{args: "get tasks --state RUNNNG", want: []string{"--state", `"RUNNNG"`, `"RUNNING"`}},
		{args: "get agents --state finished", want: []string{"--state", "DISCONNECTED"}},
		{args: "kill", want: []string{"needs TASK"}},
		{args: "kill x --grace -3s", want: []string{"--grace is -3s"}},
		{args: "kill x --grace 3", want: []string{"--grace", `"3"`, "write a time such as 5s"}},
		{args: "quota eng --limit cpu:4", want: []string{"--limit", `"cpu"`, "did you mean cpus?"}},
		{args: "reserve a memory:4 --role eng", want: []string{`"memory"`, "did you mean mem?"}},
		{args: "run --resources gpu:1 -- true", want: []string{"--resources", `"gpu"`, "did you mean gpus?"}},
		{args: "teardown", want: []string{"needs FRAMEWORK", "tender teardown FRAMEWORK"}},
		{args: "teardown a b", want: []string{`"b" is one word too many`}},
		{args: "weight eng heavy", want: []string{`weight "heavy"`, "such as 2"}},
		{args: "weight eng NaN", want: []string{`weight "NaN"`}},
		{args: "weight eng 0", want: []string{`weight "0"`, "from 0.000001 to 1000000"}},
		{args: "weight /eng 1", want: []string{"/eng"}},
		{args: "priority eng 1.5", want: []string{`priority "1.5"`, "whole number"}},
		{args: "quota eng --limit cpus=4", want: []string{"--limit", "cpus=4", "cpus:4"}},
		{args: "quota eng --limit=", want: []string{"--limit is empty", "none"}},
		{args: "reserve agent-1 cpus:1", want: []string{"--role ROLE"}},
		{args: "volume create agent-1 v1 --role eng", want: []string{"0 MB", "--size"}},
		{args: "volume create agent-1 v1 --role e//ng --size 1", want: []string{"e//ng"}},
		{args: "raft pers", want: []string{`command "pers"`, `"peers"`}},
		{args: "raft add m2 nowhere", want: []string{`"nowhere"`, "HOST:PORT"}},
		{args: "completion tcsh", want: []string{`shell "tcsh"`, "bash"}},
		{args: "run", want: []string{"needs a command"}},
		{args: "run --cpus -1 -- true", want: []string{"--cpus", "negative"}},
		{args: "run --cpus NaN -- true", want: []string{"--cpus", "NaN", "0.5"}},
		{args: "run --mem Inf -- true", want: []string{"--mem", "Inf"}},
		{args: "run --mem 1GB -- true", want: []string{"--mem", `"1GB"`, "MB, without a unit"}},
		{args: "run --check web/ -- true", want: []string{"--check", `option "web/"`, "http:PORT/PATH"}},
		{args: "run --cpus 0 --mem 0.0 -- true", want: []string{"--cpus: it is 0", "--mem: it is 0", "leave it out"}},
		{args: "run --detach=0 -- true", want: []string{"--detach is 0s", "such as 24h"}},
		{args: "run --constraint= -- true", want: []string{"--constraint is empty"}},
		{args: "run --resources ports=1 -- true", want: []string{"--resources", "NAME:AMOUNT"}},
		{args: "run --instances 0 -- true", want: []string{"--instances: it is 0"}},
		{args: "run --env A=1 --env NOTSET -- true", want: []string{"NOTSET"}},
		{args: "run --env =1 -- true", want: []string{"--env", "NAME=VALUE"}},
		{args: "run --role a//b -- true", want: []string{"role", "a//b"}},
		{args: "run --name a/b -- true", want: []string{"--name", "a/b"}},
		{args: "run --grace -1s -- true", want: []string{"--grace"}},
		{args: "run --memory 3 -- true", want: []string{"no flag --memory", "--mem?"}},
		{args: "run -d -- true", want: []string{"no flag -d", "--detach or --dir or --disk?"}},
		{args: "run --port 80 -- true", want: []string{"--port", `"80"`, "http=80"}},
		{args: "run --image= -- true", want: []string{"--image is empty", "leave it out"}},
		{args: "run --user= -- true", want: []string{"--user is empty"}},
		{args: "get tasks --agent=", want: []string{"--agent is empty"}},
		{args: "run --gpus 0.5 -- true", want: []string{"0.5 GPUs", "whole number"}},
		{args: "run --check http:web/ -- true", want: []string{"--check", `port "web"`, "--port web"}},
		{args: "run --port http --check tcp:web -- true", want: []string{"--check", `port "web"`, "--port web"}},
		{args: "run --check interval=0s,shell:true -- true", want: []string{"--check", "interval is 0s", "leave it out"}},
		{args: "run --check failures=0,shell:true -- true", want: []string{"--check", "failures is 0"}},
		{args: "run --check interval=1ms,shell:true -- true", want: []string{"interval is 1ms", "100ms or more"}},
		{args: "run --mem 64 --limit mem=32 -- true", want: []string{"limit of memory is 32 MB", "64 MB"}},
		{args: "run --limit pids=-1 -- true", want: []string{"limit of processes is -1"}},
		{args: "priority eng 99999999999", want: []string{`priority "99999999999"`, "from -2147483648 to 2147483647"}},
		{args: "volume destroy agent-1 v1", want: []string{"--role ROLE"}},
		{args: "run --timeout -1s -- true", want: []string{"--timeout is -1s", "write a time such as 10m"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			s := &shell{env: test.env, dial: nobody}
			stdout, stderr, code := s.run(t, strings.Fields(test.args)...)
			if code != 2 || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			if !strings.HasPrefix(stderr, "tender: ") || strings.Count(stderr, "\n") != 1 {
				t.Errorf("not one line of tender's: %q", stderr)
			}
			for _, want := range test.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q does not say %q", stderr, want)
				}
			}
		})
	}
}

// Every command that needs a master says within five seconds of the (virtual) clock that there is none.
func TestUnreachableMasters(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"get agents", "get tasks -o json", "describe agent a", "kill t", "explain f", "drain a", "weight eng", "weight eng 2",
		"raft peers", "raft snapshot save /tmp/never-written", "logs t", "run -- true",
	} {
		for why, dial := range map[string]func(context.Context, string) (net.Conn, error){
			"connection refused": nobody,
			"does not answer": func(ctx context.Context, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			"it speaks HTTP/1.1, so it is not the gRPC port of a master, which is 5060 unless said otherwise": oldHTTP,
		} {
			t.Run(args+": "+why, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &shell{dial: dial, env: map[string]string{"TENDER_MASTER": "m1:5060, m2:5060"}}
					start := time.Now()
					_, stderr, code := s.run(t, strings.Fields(args)...)
					if took := time.Since(start); code != 1 || took > 5*time.Second {
						t.Errorf("exit code %d after %v", code, took)
					}
					for _, want := range []string{"m1:5060 (" + why + ")", "m2:5060 (" + why + ")", "tender dev", "TENDER_MASTER"} {
						if !strings.Contains(stderr, want) {
							t.Errorf("%q does not say %q", stderr, want)
						}
					}
					if strings.Count(stderr, "\n") != 1 {
						t.Errorf("not one line: %q", stderr)
					}
				})
			})
		}
	}
}

// oldHTTP connects to an HTTP/1 server, as the HTTP port of a master is one.
func oldHTTP(context.Context, string) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		_, _ = http.ReadRequest(bufio.NewReader(there)) // the preface of HTTP/2 looks like a request
		_, _ = io.WriteString(there, "HTTP/1.1 505 HTTP Version Not Supported\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(io.Discard, there) // until the client closes the connection
		_ = there.Close()
	}()
	return here, nil
}
