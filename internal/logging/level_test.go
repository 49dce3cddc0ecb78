package logging_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/internal/logging"
)

func TestLevel(t *testing.T) {
	level, err := logging.NewLevel("warn")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	log := zerolog.New(&out).Hook(level).With().Str("of", "a part").Logger()
	for _, name := range []string{"warn", "debug", "info", "error"} {
		if err := level.Set(name); err != nil || level.String() != name {
			t.Errorf("%s: %v, %v", name, level, err)
		}
		if level.Shows(zerolog.DebugLevel) != (name == "debug") || !level.Shows(zerolog.ErrorLevel) {
			t.Errorf("%s shows other lines", name)
		}
		log.Debug().Msg("debug at " + name)
		log.Info().Msg("info at " + name)
		log.Error().Msg("error at " + name)
	}
	var said []string
	for line := range strings.Lines(out.String()) {
		_, message, _ := strings.Cut(line, `"message":"`)
		said = append(said, strings.TrimSuffix(message, "\"}\n"))
	}
	if got, want := strings.Join(said, ", "), "error at warn, debug at debug, info at debug, error at debug, info at info, error at info, error at error"; got != want {
		t.Errorf("said: %s", got)
	}
	if err := level.Set("loud"); err == nil || level.String() != "error" {
		t.Errorf("%v: %v", level, err)
	}
	if _, err := logging.NewLevel(""); err == nil {
		t.Error("no name is a level")
	}
	answer := httptest.NewRecorder()
	if err := level.Show(answer); err != nil || answer.Body.String() != "{\"level\":\"error\"}\n" {
		t.Errorf("%q, %v", answer.Body, err)
	}
}
