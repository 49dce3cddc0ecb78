package logging

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/rs/zerolog"
)

// Level is the lowest level that all loggers write which have it as a hook, the first of theirs. It can be read and
// changed by HTTP while the process runs; who may do so is checked before. It may be used from any goroutine.
type Level struct {
	least atomic.Int32 // a zerolog.Level
}

// NewLevel is the level of that name.
func NewLevel(name string) (*Level, error) {
	l := new(Level)
	return l, l.Set(name)
}

// Set changes it.
func (l *Level) Set(name string) error {
	levels := map[string]zerolog.Level{
		"debug": zerolog.DebugLevel, "info": zerolog.InfoLevel, "warn": zerolog.WarnLevel, "error": zerolog.ErrorLevel,
	}
	level, known := levels[name]
	if !known {
		return fmt.Errorf("log level %q is unknown; write debug, info, warn or error", name)
	}
	l.least.Store(int32(level))
	return nil
}

// String is its name.
func (l *Level) String() string { return zerolog.Level(l.least.Load()).String() }

// Shows tells whether lines of a level are written.
func (l *Level) Shows(level zerolog.Level) bool { return level >= zerolog.Level(l.least.Load()) }

// Run drops a line that is below the level.
func (l *Level) Run(line *zerolog.Event, level zerolog.Level, _ string) {
	if !l.Shows(level) {
		line.Discard()
	}
}

// Show answers with the level, as JSON.
func (l *Level) Show(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(map[string]string{"level": l.String()})
}
