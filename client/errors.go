package client

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// Unreachable is the error if no master answered as leader.
type Unreachable struct {
	Tried      string // "127.0.0.1:5060 (connection refused), …"
	Leaderless bool   // masters answered, but none leads
}

func (u *Unreachable) Error() string {
	if u.Leaderless {
		return "the masters have no leader: " + u.Tried
	}
	return "no master answers: " + u.Tried
}

// Error converts what gRPC returned to an *api.Error.
func Error(err error) error {
	if own := (*api.Error)(nil); err == nil || errors.As(err, &own) {
		return err
	}
	if detail := detailOf(err); detail != nil {
		return wire.ErrorFromProto(detail)
	}
	s, _ := status.FromError(err)
	kind := api.Internal
	if s.Code() == codes.Unavailable { // the connection broke
		kind = api.Unavailable
	}
	return api.E("", kind, "", errors.New(s.Message()))
}

// detailOf returns the typed error in a gRPC status, or nil.
func detailOf(err error) *apiv1.Error {
	s, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, detail := range s.Details() {
		if typed, ok := detail.(*apiv1.Error); ok {
			return typed
		}
	}
	return nil
}
