package tidy

import (
	"os"
	"testing"
)

// rule is one rule about the sources.
type rule struct {
	name  string
	check func(*tree) []complaint
}

var rules = []rule{
	{"sources parse", sourcesParse},
	{"imports point down", importsPointDown},
	{"folders point down", foldersPointDown},
	{"the SDK is light", sdkIsLight},
	{"process is the program's own", processIsTheProgramsOwn},
	{"pure reaches no world", pureReachesNoWorld},
	{"pure starts nothing", pureStartsNothing},
	{"pure order is sorted", pureOrderIsSorted},
	{"packages promise", packagesPromise},
	{"tests do not sleep", testsDoNotSleep},
	{"nothing is left over", nothingIsLeftOver},
	{"files hold one noun", filesHoldOneNoun},
}

// TestTidy checks Tender's own sources.
func TestTidy(t *testing.T) {
	sources, err := read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(sources.files) == 0 {
		t.Fatal("found no Go files three folders up")
	}
	for _, rule := range append(rules, rule{"floors hold packages", floorsHoldPackages}, rule{"parts are small", partsAreSmall},
		rule{"rooms call one way", roomsCallOneWay}) {
		t.Run(rule.name, func(t *testing.T) {
			for _, c := range rule.check(sources) {
				t.Error(c)
			}
		})
	}
}
