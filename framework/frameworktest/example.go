package frameworktest

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// Example is [Run] for an Example function, which has no *testing.T. What the story prints is the output of the
// example. When the story fails, so does the example; what a test would have printed is on stderr.
//
//	func ExampleBatch() {
//		frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
//			batch := c.Start(framework.Config{Name: "batch"}, newBatch(100))
//			fmt.Println(batch.Await())
//		})
//		// Output: <nil>
//	}
//
// Time is virtual and begins anew, but which goroutine runs first is not fixed. So print what must be, not what happens
// to come first. Call Example only in an Example function that go test runs.
func Example(cluster Cluster, story func(c *Handle)) {
	var caller [1]uintptr
	runtime.Callers(2, caller[:])
	frame, _ := runtime.CallersFrames(caller[:]).Next()
	name := frame.Function[strings.LastIndex(frame.Function, ".")+1:]
	output, told := os.Stdout, false
	test := func(t *testing.T) {
		if told { // -count and -cpu repeat tests, but not examples
			return
		}
		told = true
		os.Stdout = output
		defer func() { os.Stdout = os.Stderr }()
		Run(t, cluster, story)
	}
	// go test has set os.Stdout to the pipe that takes the example's output. The lines of the test itself do not belong
	// there.
	os.Stdout = os.Stderr
	defer func() { os.Stdout = output }()
	if !testing.RunTests(regexp.MatchString, []testing.InternalTest{{Name: name, F: test}}) {
		fmt.Fprintln(output, "the story has failed: see stderr")
	}
}
