package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

func TestErrorsTravelByStatus(t *testing.T) {
	seen := make(map[api.Kind]codes.Code)
	for kind := api.Internal; kind <= api.Unsupported; kind++ {
		sent := api.E("offer.accept", kind, "offer-7-42", errors.New("the agent went away"))
		if kind == api.NotLeader {
			sent = wire.NotLeader("offer.accept", "m2:5060")
		}
		answer := wire.Status(fmt.Errorf("wrapped: %w", sent))
		code := status.Code(answer)
		if code == codes.OK {
			t.Fatalf("%v is OK", kind)
		}
		seen[kind] = code
		read := wire.Error(answer)
		if read.Error() != sent.Error() || read.Kind != kind || read.Subject != sent.Subject {
			t.Errorf("sent %v, read %v", sent, read)
		}
		if again := wire.Error(fmt.Errorf("wrapped: %w", read)); again != read {
			t.Errorf("what is read already stays: %v", again)
		}
	}
	if seen[api.Invalid] != codes.InvalidArgument || seen[api.Unsupported] != codes.Unimplemented || seen[api.NotLeader] != codes.Unavailable {
		t.Error(seen)
	}
	if wire.Status(nil) != nil || wire.Error(nil) != nil || wire.ErrorToProto(nil) != nil || wire.ErrorFromProto(nil) != nil {
		t.Error("no error became one")
	}
}

func TestTheLeaderTravels(t *testing.T) {
	err := error(wire.Error(wire.Status(wire.NotLeader("session", "m2:5060"))))
	if got := wire.LeaderOf(err); got != "m2:5060" || !api.Is(err, api.NotLeader) {
		t.Errorf("leader %q of %v", got, err)
	}
	if got, want := err.Error(), "session: not leader: the leader is at m2:5060"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := wire.Error(wire.Status(wire.NotLeader("session", ""))); wire.LeaderOf(err) != "" || err.Err == nil {
		t.Error(err)
	}
	if wire.LeaderOf(errors.New("x")) != "" || wire.LeaderOf(nil) != "" {
		t.Error("a leader from nowhere")
	}
}

// TestCausesOfADenialTravel: an error by which a caller is told that it was revoked, or that it belongs to another cluster,
// is denied like others, and its cause arrives.
func TestCausesOfADenialTravel(t *testing.T) {
	for _, test := range []struct {
		cause            error
		revoked, another bool
	}{
		{protocol.Revoked("it leaked"), true, false},
		{protocol.BelongsElsewhere("c2", "agent", "c1", "a wrong address"), false, true},
		{errors.New("this is cluster c2"), false, false},
	} {
		err := api.E("rights", api.Denied, "etl", test.cause)
		got := wire.Error(wire.Status(err))
		var revoked protocol.Revoked
		var another protocol.OtherCluster
		if errors.As(got, &revoked) != test.revoked || errors.As(got, &another) != test.another || got.Kind != api.Denied || got.Error() != err.Error() {
			t.Errorf("%v arrives as %v, revoked: %v, of another cluster: %v", err, got, revoked, another)
		}
	}
}

// TestWhenToTryAgainTravels: the time is sent also inside another error, and no peer can ask for a long one.
func TestWhenToTryAgainTravels(t *testing.T) {
	limited := api.E("master.call", api.Limit, "etl", errors.New("too many; come back in a moment")).RetryIn(2 * time.Second)
	for _, test := range []struct {
		err  *api.Error
		want time.Duration
	}{
		{limited, 2 * time.Second},
		{api.E("store.put", api.Unavailable, "k", fmt.Errorf("refused: %w", limited)), 2 * time.Second},
		{api.E("store.put", api.Limit, "k", errors.New("for ever")), 0},
		{api.E("store.put", api.Limit, "k", nil).RetryIn(-time.Second), 0},
		{api.E("store.put", api.Limit, "k", nil).RetryIn(time.Hour), time.Minute},
	} {
		if got := wire.Error(wire.Status(test.err)); api.RetryAfter(got) != test.want || got.Kind != test.err.Kind || got.Error() != test.err.Error() {
			t.Errorf("%v arrives as %v, to be tried again in %v instead of %v", test.err, got, api.RetryAfter(got), test.want)
		}
	}
	if wait := api.RetryAfter(errors.New("x")); wait != 0 {
		t.Errorf("who says nothing of it is asked again in %v", wait)
	}
}

func TestErrorsOfTheTransport(t *testing.T) {
	for _, test := range []struct {
		err  error
		kind api.Kind
		want string
	}{
		{io.EOF, api.Unavailable, "call: unavailable: the other side has ended the stream"},
		{context.Canceled, api.Unknown, "call: unknown outcome: context canceled"},
		{errors.New("no route"), api.Unavailable, "call: unavailable: no route"},
		{status.Error(codes.Unavailable, "connection refused"), api.Unavailable, "call: unavailable: the other side can't be reached: connection refused"},
		{status.Error(codes.DeadlineExceeded, "x"), api.Unknown, "call: unknown outcome: no answer in time"},
		{status.Error(codes.Canceled, "x"), api.Unknown, "call: unknown outcome: given up before the answer"},
		{status.Error(codes.Unauthenticated, "who are you"), api.Denied, "call: denied: who are you"},
		{status.Error(codes.ResourceExhausted, "too large"), api.Limit, "call: limit: too large"},
		{status.Error(codes.Unimplemented, "unknown method X"), api.Unsupported,
			"call: unsupported: the other side does not know this call; is it a Tender of this version? unknown method X"},
	} {
		if got := wire.Error(test.err); got.Kind != test.kind || got.Error() != test.want {
			t.Errorf("%v:\n got %v\nwant %s", test.err, got, test.want)
		}
	}
	if code := status.Code(wire.Status(context.DeadlineExceeded)); code != codes.DeadlineExceeded {
		t.Error(code)
	}
	if code := status.Code(wire.Status(errors.New("x"))); code != codes.Internal {
		t.Error(code)
	}
	if err := status.Error(codes.DataLoss, "x"); wire.Status(err) != err { //nolint:errorlint // the very same
		t.Error("a status did not stay as it is")
	}
}

func TestErrorsAreBounded(t *testing.T) {
	err := api.E(strings.Repeat("o", 1<<20), api.Internal, strings.Repeat("ß", 1<<20), errors.New(strings.Repeat("€", 1<<20)))
	answer := wire.Status(err)
	if size := len(status.Convert(answer).Proto().String()); size > 8<<10 {
		t.Errorf("%d bytes for a trailer", size)
	}
}

// If the cause has the same kind, the kind is written once.
func TestTheSameKindIsSaidOnce(t *testing.T) {
	inner := api.E("registry.apply", api.Stale, "a1", errors.New("version 3"))
	outer := api.E("agent.mark", api.Stale, "a1", inner)
	if got, want := wire.Error(wire.Status(outer)).Error(), "agent.mark: a1: stale: registry.apply: a1: version 3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
