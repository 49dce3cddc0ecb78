package doctor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/agent/membership"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/version"
)

// machine is the word for the machine that the command runs on.
const machine = "machine"

// Machine looks at this machine, for masters and agents with data folders in or below the folder.
func Machine(folder string, now time.Time) []Finding {
	found := []Finding{{State: Good, Of: machine, What: "version", Is: version.String() + " " + runtime.GOOS + "/" + runtime.GOARCH}}
	found = append(found, system()...)
	found = append(found, isolation())
	found = append(found, disk(folder)...)
	found = append(found, ports()...)
	return append(found, passes(folder, now)...)
}

// isolation tries what the agent tries at its start.
func isolation() Finding {
	f := Finding{State: Good, Of: machine, What: "isolation", Right: "control groups and namespaces"}
	folder, err := os.MkdirTemp("", "tender-doctor-")
	if err == nil {
		defer func() { _ = os.RemoveAll(folder) }() // what is left is an empty folder of temporary files
		f.Is, err = tryWalls(folder)
	}
	if err != nil {
		f.State, f.Is = Warn, err.Error()
	}
	return f.advise("as root, on a system with control groups, an agent isolates tasks best; without them it still runs (docs/operate.md, \"What a task may use\")")
}

// tryWalls returns what isolates tasks here; the error says what does not.
func tryWalls(folder string) (string, error) {
	config, err := walls.Config{Isolation: walls.Spaces}.WithDefaults()
	if err != nil {
		return "", err
	}
	cells, err := walls.OpenCells(folder, config)
	if err != nil {
		return "", err
	}
	found := cells.Found()
	if err := cells.Close(); err != nil {
		return "", err
	}
	if len(found.Lacks) > 0 {
		return "", errors.New(found.String() + "; " + strings.Join(found.Lacks, "; "))
	}
	return found.String(), nil
}

// syncs is how many writes measure a disk.
const syncs = 20

// disk looks at the disk on which data folders are.
func disk(folder string) []Finding {
	at := existing(folder)
	of := "disk of " + folder
	var found []Finding
	if room, err := datafolder.RoomOf(at); err == nil {
		found = judgeRoom(of, room)
	}
	took, err := timeSyncs(at)
	if err != nil {
		return append(found, Finding{
			State: Unknown, Of: of, What: "disk speed", Is: err.Error(), Right: syncGood.String() + " or less",
			Do: "run it as the user of the master or agent, or name its folder by --data-dir",
		})
	}
	return append(found, judgeSync(of, "disk speed", took))
}

// existing returns the folder, or the nearest one above it that exists.
func existing(folder string) string {
	for {
		if _, err := os.Stat(folder); err == nil || folder == filepath.Dir(folder) {
			return folder
		}
		folder = filepath.Dir(folder)
	}
}

// timeSyncs writes a page again and again, as the logs of masters and agents do. The file has no name while it is
// written, so that nothing is left if this process is killed.
func timeSyncs(folder string) (took []time.Duration, err error) {
	file, err := os.CreateTemp(folder, ".doctor-")
	if err != nil {
		return nil, err
	}
	err = os.Remove(file.Name())
	page := make([]byte, 4096)
	for i := 0; i < syncs && err == nil; i++ {
		began := time.Now()
		if _, err = file.WriteAt(page, int64(i*len(page))); err == nil {
			err = file.Sync()
		}
		took = append(took, time.Since(began))
	}
	return took, errors.Join(err, file.Close())
}

// ports looks whether the default ports can be had.
func ports() (found []Finding) {
	for _, port := range []struct {
		number      uint64
		flag, about string
	}{
		{5050, "--http-port", "a master's HTTP"}, {5051, "--http-port", "an agent's HTTP"}, {5060, "--grpc-port", "a master's gRPC"}, {5070, "--raft-port", "a master's Raft"},
	} {
		f := Finding{State: Good, Of: machine, What: "port " + strconv.FormatUint(port.number, 10), Is: "free", Right: "free, or taken by tender"}
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port.number))
		if err == nil {
			err = listener.Close()
		}
		if err != nil {
			owner := portOwner(port.number)
			switch {
			case owner == "":
				f.State, f.Is = Unknown, "taken; root sees by whom"
			case strings.HasPrefix(owner, "tender"):
				f.Is = "taken by " + owner
			default:
				f.State, f.Is = Warn, "taken by "+owner
			}
		}
		found = append(found, f.advise("it is for "+port.about+": choose another one by "+port.flag+" if it is needed here"))
	}
	return found
}

// passes looks at the certificates of agents in the folder and in those directly below it. A master signs its own.
func passes(folder string, now time.Time) (found []Finding) {
	files, _ := filepath.Glob(filepath.Join(folder, "*", membership.PassFile)) // the pattern has no mistake
	for _, file := range append([]string{filepath.Join(folder, membership.PassFile)}, files...) {
		pass, err := trust.ReadPass(file)
		switch {
		case err != nil:
			found = append(found, Finding{State: Unknown, Of: file, What: "certificate", Is: err.Error(), Do: "run it as the user of the agent"})
		case pass.IsSigned():
			found = append(found, judgeEnd(file, "certificate", pass.Ends(), now, pass.Life(),
				"see the agent's log for why it was not renewed; once it has ended, start the agent with --join (docs/operate.md, \"When an agent's certificate has expired\")"))
		}
	}
	return found
}
