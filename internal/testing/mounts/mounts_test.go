package mounts

import "testing"

func TestWithout(t *testing.T) {
	const (
		root   = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
		proc   = "22 27 0:21 / /proc rw,relatime - proc none rw\n"
		others = "104 27 0:45 / /tmp/TestDiskFull266/002/mount rw,relatime - tmpfs none rw\n"
		own    = "105 27 0:46 / /tmp/TestSpaces1/001/agent rw,relatime - tmpfs none rw\n"
		tmp    = "106 27 0:47 / /tmp rw,relatime - tmpfs none rw\n"
	)
	if got := without(root+proc+others+own+tmp, "/tmp/", "/tmp/TestSpaces1/001"); got != root+proc+own+tmp {
		t.Errorf("got\n%s", got)
	}
}
