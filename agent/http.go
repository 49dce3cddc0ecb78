package agent

import (
	"errors"
	"net"
	"net/http"

	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logging"
)

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}

var errNoLogLevel = errors.New("the level of this process's log is not known; it can't be changed")

// serveLogLevel shows the level of this process's log. PUT changes it first, until the process ends, and the audit log
// notes who did that.
func serveLogLevel(level *logging.Level, noted *visitors.Visitors) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var err *api.Error
		wanted := r.URL.Query().Get("level")
		if level == nil {
			err = api.E("agent.log-level", api.Unsupported, "", errNoLogLevel)
		}
		if r.Method == http.MethodPut {
			if err == nil {
				if wrong := level.Set(wanted); wrong != nil {
					err = api.E("agent.log-level", api.Invalid, "", wrong)
				}
			}
			noted.NoteChange(r, "log level", map[string]string{"level": wanted}, err)
		}
		if err != nil {
			visitors.Answer(w, err)
			return
		}
		_ = level.Show(w) // an error means that nobody waits for the answer
	}
}
