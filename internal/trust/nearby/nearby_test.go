//go:build linux

package nearby_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/nearby"
)

// holder makes this program announce a cluster instead of running tests, in a process that is to be killed.
const holder = "TENDER_TEST_NEARBY_ADDRESS"

func TestMain(m *testing.M) {
	if address := os.Getenv(holder); address != "" {
		if _, err := nearby.Announce(me(), []string{address}, "of the other process"); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("announced")
		select {}
	}
	os.Exit(m.Run())
}

func me() nearby.Users { return nearby.UsersOf(func(string) (string, bool) { return "", false }) }

// address returns an address that no other test and no cluster has.
func address(t *testing.T) string { return fmt.Sprintf("127.0.0.9:%d", 100_000+os.Getpid()) + t.Name() }

func TestATokenIsFoundForAsLongAsItsClusterRuns(t *testing.T) {
	one, other := address(t)+"1", address(t)+"2"
	if got := nearby.Token(me(), []string{one}); got != "" {
		t.Fatalf("before: %q", got)
	}
	withdraw, err := nearby.Announce(me(), []string{one, other}, "t1")
	if err != nil {
		t.Fatal(err)
	}
	if got := nearby.Token(me(), []string{"10.0.0.1:5060", other}); got != "t1" {
		t.Errorf("by one of its masters: %q", got)
	}
	if got := nearby.Masters(me(), nil, other); !slices.Equal(got, []string{other, one}) {
		t.Errorf("its masters, by one of them: %q", got)
	}
	if got := nearby.Masters(me(), []string{"m9:5060", one}, other); !slices.Equal(got, []string{"m9:5060", one, other}) {
		t.Errorf("its masters, by those that are named: %q", got)
	}
	file := filepath.Join("/tmp", fmt.Sprintf("tender-dev-%d", os.Geteuid()), one)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
	if got := nearby.Token(me(), []string{one, other}); got != "" {
		t.Errorf("after its end: %q", got)
	}
	if got := nearby.Masters(me(), nil, one); len(got) > 1 {
		t.Errorf("its masters after its end: %q", got)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

// TestTheTokenOfAClusterThatWasKilledCountsForNothing: its file stays, and is replaced by the next cluster at that
// address.
func TestTheTokenOfAClusterThatWasKilledCountsForNothing(t *testing.T) {
	where := address(t)
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), holder+"="+where)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "announced\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
	if got := nearby.Token(me(), []string{where}); got != "of the other process" {
		t.Errorf("while it runs: %q", got)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // killed, as intended
	if got := nearby.Token(me(), []string{where}); got != "" {
		t.Errorf("after it was killed: %q", got)
	}
	withdraw, err := nearby.Announce(me(), []string{where}, "of the next one")
	if err != nil {
		t.Fatal(err)
	}
	if got := nearby.Token(me(), []string{where}); got != "of the next one" {
		t.Errorf("of the next one: %q", got)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
}

// TestAnAddressIsAnnouncedOnce: the second process is refused, and changes nothing for the first.
func TestAnAddressIsAnnouncedOnce(t *testing.T) {
	one, other := address(t)+"1", address(t)+"2"
	withdraw, err := nearby.Announce(me(), []string{one}, "t1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nearby.Announce(me(), []string{other, one}, "t2"); !api.Is(err, api.Exists) {
		t.Errorf("the second: %v", err)
	}
	if got := nearby.Token(me(), []string{one}); got != "t1" {
		t.Errorf("the first has %q", got)
	}
	if got := nearby.Token(me(), []string{other}); got != "" {
		t.Errorf("the second has left %q", got)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
}

// TestWhatIsInThePlaceOfAFile: a token is not written into a file that was there before, which may have another name
// and belong to somebody else.
func TestWhatIsInThePlaceOfAFile(t *testing.T) {
	folder := filepath.Join("/tmp", fmt.Sprintf("tender-dev-%d", os.Geteuid()))
	if err := os.Mkdir(folder, 0o700); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	mine, err := os.CreateTemp("/tmp", "nearby-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(mine.Name())
	for kind, put := range map[string]func(file, name string) error{"hard link": os.Link, "symbolic link": os.Symlink} {
		if err := put(mine.Name(), filepath.Join(folder, address(t))); err != nil {
			t.Fatal(err)
		}
		withdraw, err := nearby.Announce(me(), []string{address(t)}, "t1")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(mine.Name()); err != nil || len(text) > 0 {
			t.Errorf("%s: %q was written through it, %v", kind, text, err)
		}
		if got := nearby.Token(me(), []string{address(t)}); got != "t1" {
			t.Errorf("%s: found %q", kind, got)
		}
		if err := withdraw(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhoBecameRootBySudoIsServedToo(t *testing.T) {
	users := nearby.UsersOf(func(string) (string, bool) { return "1234", true })
	if root := os.Geteuid() == 0; root != (len(users) == 2) || root && users[1] != 1234 {
		t.Errorf("as user %d: %v", os.Geteuid(), users)
	}
	if os.Geteuid() != 0 {
		return
	}
	const person = 64_321_987
	folder := filepath.Join("/tmp", fmt.Sprintf("tender-dev-%d", person))
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if _, err := nearby.Announce(nearby.Users{person}, []string{address(t)}, "t"); err == nil {
		t.Error("a token was written into somebody else's folder")
	}
	if err := os.Chown(folder, person, -1); err != nil {
		t.Fatal(err)
	}
	withdraw, err := nearby.Announce(nearby.Users{person}, []string{address(t)}, "t")
	if err != nil {
		t.Fatal(err)
	}
	if got := nearby.Token(nearby.Users{person}, []string{address(t)}); got != "t" {
		t.Errorf("the person finds %q", got)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
}
