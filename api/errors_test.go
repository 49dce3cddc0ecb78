package api_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

// TestTransient: the closed list of what may be tried again (R58).
func TestTransient(t *testing.T) {
	for kind := api.Internal; kind <= api.Unsupported; kind++ {
		want := kind == api.Unavailable || kind == api.NotLeader || kind == api.Unknown
		refused := api.E("x", kind, "", nil)
		if got := api.Transient(fmt.Errorf("wrapped: %w", refused)); got != want {
			t.Errorf("%v: %v", kind, got)
		}
		if !api.Transient(api.E("x", kind, "", nil).RetryIn(time.Second)) {
			t.Errorf("%v that says when to come back is not", kind)
		}
	}
	if api.Transient(nil) || api.Transient(errors.New("anything")) {
		t.Error("no error, or one without a kind, is")
	}
}
