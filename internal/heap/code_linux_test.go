package heap

import (
	"fmt"
	"os"
	"regexp"
	"testing"
)

// TestCodeIsGivenBack: the program's pages are mapped no more, and the program goes on.
func TestCodeIsGivenBack(t *testing.T) {
	before := mappedFiles(t)
	giveBackCode()
	if after := mappedFiles(t); after >= before {
		t.Errorf("%d kB of files are mapped, and %d kB were before", after, before)
	}
}

// mappedFiles returns how many kilobytes of files this process has mapped.
func mappedFiles(t *testing.T) (kilobytes int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(regexp.MustCompile(`RssFile:\s*(\d+)`).FindSubmatch(status)[1]), &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes
}
