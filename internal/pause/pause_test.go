package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/internal/pause"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !pause.For(t.Context(), time.Second) || time.Since(began) != time.Second {
			t.Errorf("returned after %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if pause.For(ctx, time.Hour) || time.Since(began) != 2*time.Second {
			t.Errorf("outlived its context: %v", time.Since(began))
		}
	})
}
