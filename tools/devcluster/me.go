package devcluster

import "os/user"

// Me returns the user who runs this program, for agents whose tasks are to run as the same user; "root" if that is not
// known.
func Me() string {
	me, err := user.Current()
	if err != nil {
		return "root"
	}
	return me.Username
}
