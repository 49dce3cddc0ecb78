// Package audit records who has changed what: a line of JSON for each change, in a file of bounded size. The newest
// lines are kept in memory as well, for queries ([Recent]). Secrets in a request are written to neither.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
)

const (
	// bytesMax is the size at which the audit log is renamed to FILE.1, FILE.1 to FILE.2, and so on.
	bytesMax = 16 << 20
	// filesMax is how many renamed files are kept; the oldest is removed.
	filesMax = 4
	// onBytesMax bounds what a line says of the request. A longer request is left out.
	onBytesMax = 4 << 10
	// whyBytesMax bounds what a line says of a refusal. The rest of a longer text is cut off.
	whyBytesMax = 4 << 10
	fileName    = "audit.log"
)

var (
	// Denied is the result of a call that its caller was not allowed to make.
	Denied    = api.Denied.String()
	notLeader = api.NotLeader.String()
)

// Log is the file of changes. A nil Log writes nothing.
type Log struct {
	mu    sync.Mutex
	path  string // "": standard output
	file  io.Writer
	bytes int64
	torn  bool // the last line has no end
}

// Open opens the file that the setting names, or makes it. "-" is standard output, "off" means no log, and "" means
// audit.log in the folder, or no log without a folder.
func Open(setting, dir string) (*Log, error) {
	switch {
	case setting == "off" || setting == "" && dir == "":
		return nil, nil
	case setting == "-":
		return &Log{file: os.Stdout}, nil
	case setting == "":
		setting = filepath.Join(dir, fileName)
	}
	a := &Log{path: setting}
	if err := a.open(); err != nil {
		return nil, api.E("audit", api.Unavailable, setting, fmt.Errorf("the audit log can't be opened; name another file with --audit-log, or 'off': %w", err))
	}
	return a, nil
}

func (a *Log) open() error {
	file, err := os.OpenFile(a.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	a.file, a.bytes = file, info.Size()
	a.torn = info.Mode().IsRegular() && endsTorn(a.path, a.bytes)
	return nil
}

// Close closes the file.
func (a *Log) Close() error {
	if a == nil || a.path == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closeFile()
}

func (a *Log) closeFile() error {
	closer, is := a.file.(io.Closer)
	if a.file = nil; !is {
		return nil
	}
	return closer.Close()
}

// Line is one change, as it stands in the audit log.
type Line struct {
	Number uint64          `json:"n,omitempty"` // counts the changes that a master has noted; agents do not count
	At     time.Time       `json:"at"`
	Who    string          `json:"who"`
	From   string          `json:"from"`
	Call   string          `json:"call"`
	On     json.RawMessage `json:"on,omitempty"`
	Cut    bool            `json:"cut,omitempty"` // On or About was too long and is left out
	// About are objects that the request does not name, or not by this name.
	About  []string `json:"about,omitempty"`
	Result string   `json:"result"`
	Why    string   `json:"why,omitempty"`
	Index  uint64   `json:"index,omitempty"` // the index of the registry when a master answered
}

// SetOn sets what the change was about, as JSON. Values that may be secret are hidden.
func (l *Line) SetOn(text []byte) {
	text = withoutSecrets(text)
	if l.Cut = len(text) > onBytesMax || !json.Valid(text); !l.Cut {
		l.On = text
	}
}

// SetAbout sets objects that the change was about in addition to those that the request names.
func (l *Line) SetAbout(objects []Object) {
	l.About = nil
	bytes := 0
	for _, object := range objects {
		if bytes += len(object.String()); bytes > onBytesMax {
			l.About, l.Cut = nil, true
			return
		}
		l.About = append(l.About, object.String())
	}
}

// unread says that the request was not read, so that it may have been about anything.
func (l *Line) unread() bool { return l.On == nil && l.About == nil }

// SetWhy sets why the change was refused.
func (l *Line) SetWhy(text string) {
	if len(text) > whyBytesMax {
		text = text[:whyBytesMax] + "..."
	}
	l.Why = strings.ToValidUTF8(text, "")
}

// Shown returns On in a form that a log accepts.
func (l *Line) Shown() []byte {
	if l.On == nil {
		return []byte("null")
	}
	return l.On
}

// Write appends a line.
func (a *Log) Write(l Line) error {
	if a == nil {
		return nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.path != "" && (a.file == nil || a.bytes+int64(len(text)) > bytesMax) {
		if err := a.rotate(); err != nil {
			return err
		}
	}
	if a.torn {
		text = append([]byte("\n"), text...)
	}
	n, err := a.file.Write(text)
	if a.bytes += int64(n); n > 0 {
		a.torn = n < len(text)
	}
	return err
}

// rotate renames a full file and begins a new one.
func (a *Log) rotate() error {
	if a.file != nil {
		if err := a.closeFile(); err != nil {
			return err
		}
		for i := filesMax - 1; i > 0; i-- {
			if err := os.Rename(aside(a.path, i), aside(a.path, i+1)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		if err := os.Rename(a.path, aside(a.path, 1)); err != nil {
			return err
		}
	}
	return a.open()
}

func aside(path string, i int) string { return fmt.Sprintf("%s.%d", path, i) }
