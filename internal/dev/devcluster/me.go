package devcluster

import "os/user"

// Me is the user who runs this program, for agents whose tasks are to run as it does; "root" if nobody can say who.
func Me() string {
	me, err := user.Current()
	if err != nil {
		return "root"
	}
	return me.Username
}
