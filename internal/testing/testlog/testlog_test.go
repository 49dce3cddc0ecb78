package testlog_test

import (
	"testing"

	"github.com/tenderhq/tender/internal/testing/testlog"
)

// TestWhatIsWrittenAfterTheEndIsDropped: if such lines were not dropped, package testing would panic.
func TestWhatIsWrittenAfterTheEndIsDropped(t *testing.T) {
	late := testlog.New(t)
	t.Run("ends", func(t *testing.T) {
		late = testlog.New(t)
		late.Info().Msg("in time")
	})
	late.Info().Msg("too late")
}
