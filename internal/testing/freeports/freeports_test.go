package freeports_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/testing/freeports"
)

// TestNobodyElseIsGivenAPort: a port that one process has reserved is given to no other, though nobody listens there.
func TestNobodyElseIsGivenAPort(t *testing.T) {
	const most = 1000 // of 9,000: if it did not hold, one of 100 would surely be among them
	if os.Getenv("TENDER_TEST_PORTS") != "" {
		taken, err := freeports.Reserve(most)
		fmt.Println(strings.Trim(fmt.Sprint(taken), "[]"))
		if err == nil {
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // it ends when nobody needs them any more
		}
		return
	}
	other := exec.Command(os.Args[0], "-test.run", "^TestNobodyElseIsGivenAPort$")
	other.Env = append(os.Environ(), "TENDER_TEST_PORTS=1")
	input, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	theirs := strings.Fields(line)
	for range 100 {
		if mine := strconv.Itoa(freeports.ReserveOne(t)); strings.Contains(" "+line, " "+mine+" ") {
			t.Errorf("port %s was given to both", mine)
		}
	}
	if len(theirs) != most {
		t.Errorf("the other process has %d ports", len(theirs))
	}
	_ = input.Close()
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
}
