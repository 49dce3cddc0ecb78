package terminal

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/internal/frames"
)

// TestTerminal: clients see what the command says, also what it has said before, and what one types the command reads.
func TestTerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		code, err := Hold([]string{"/bin/sh", "-c", "test -t 0 && echo ready; read line; stty size; echo got $line; exit 3"}, nil, &out)
		if err != nil {
			t.Error(err)
		}
		ended <- code
	}()
	heard, says := io.Pipe()
	go func() {
		if err := Attach(t.Context(), strings.NewReader(""), says); err != nil {
			t.Error(err)
		}
		says.Close()
	}()
	var all strings.Builder
	await := func(word string) {
		t.Helper()
		for one := make([]byte, 1); !strings.Contains(all.String(), word); {
			if _, err := heard.Read(one); err != nil {
				t.Fatalf("heard only %q, not %q", all.String(), word)
			}
			all.Write(one)
		}
	}
	await("ready")
	var typed bytes.Buffer
	client := frames.NewWriter(&typed)
	if err := client.WriteSize(10, 132); err != nil {
		t.Fatal(err)
	}
	if err := client.Write(frames.Stdin, []byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if err := Attach(t.Context(), &typed, nil); err != nil {
		t.Fatal(err)
	}
	await("10 132")
	await("got hello")
	if code := <-ended; code != 3 {
		t.Errorf("exit code %d", code)
	}
	if _, err := io.ReadAll(heard); err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "got hello") {
		t.Errorf("its log has %q", out.String())
	}
}

// TestTerminalIsKilled: a signal is the command's, which may handle it.
func TestTerminalIsKilled(t *testing.T) {
	t.Chdir(t.TempDir())
	signals := make(chan os.Signal, 1)
	out, says := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code, err := Hold([]string{"/bin/sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 1; done"}, signals, says)
		if err != nil {
			t.Error(err)
		}
		ended <- code
	}()
	line := make([]byte, 16)
	if _, err := out.Read(line); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until the test's end
	signals <- syscall.SIGTERM
	if code := <-ended; code != 7 {
		t.Errorf("exit code %d", code)
	}
}
