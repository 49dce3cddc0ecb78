package frameworktest

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// Example is [Run] for an Example function, which is given no *testing.T. What the story prints is
// the example's output; when it fails, so does the example, and what a test would have said is on
// stderr.
//
//	func ExampleBatch() {
//		frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
//			batch := c.Start(framework.Config{Name: "batch"}, newBatch(100))
//			fmt.Println(batch.Await())
//		})
//		// Output: <nil>
//	}
//
// Time is virtual and starts anew, but which goroutine runs first is not fixed: print what must be, not
// what happens to come first. Call it in an Example function that go test runs, nowhere else.
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
	// go test has put its pipe for the example's output into os.Stdout; a test's own lines do not belong there.
	os.Stdout = os.Stderr
	defer func() { os.Stdout = output }()
	if !testing.RunTests(regexp.MatchString, []testing.InternalTest{{Name: name, F: test}}) {
		fmt.Fprintln(output, "the story has failed: see stderr")
	}
}
