package wire

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

// errorBytesMax bounds each text of an error, so that the error fits into the trailer of a stream. Longer texts are cut
// off.
const errorBytesMax = 1 << 10

// retryAfterMax bounds the time after which a peer may ask to try again.
const retryAfterMax = time.Minute

// leader is the cause of an error of kind NotLeader.
type leader string

func (l leader) Error() string {
	if l == "" {
		return "nobody leads yet that this master knows of; try again in a moment"
	}
	return "the leader is at " + string(l)
}

// NotLeader is the answer of a master that does not lead. address is the gRPC address of the leader; "" if it is not
// known.
func NotLeader(op, address string) *api.Error {
	return api.E(op, api.NotLeader, "", leader(address))
}

// nobody is the cause of an error of kind NotLeader that says why there is no leader.
type nobody string

const nobodyLeads = "nobody leads: "

func (n nobody) Error() string { return nobodyLeads + string(n) }

// NoLeader is the answer of a master that knows why nobody leads.
func NoLeader(op, why string) *api.Error { return api.E(op, api.NotLeader, "", nobody(why)) }

// NobodyLeads reports whether an error says why nobody leads.
func NobodyLeads(err error) bool {
	var n nobody
	return errors.As(err, &n)
}

// LeaderOf returns the leader's gRPC address that an error of kind NotLeader names,
// "" when it names none.
func LeaderOf(err error) string {
	var l leader
	errors.As(err, &l)
	return string(l)
}

// ErrorToProto makes the message of an error; nil for nil.
func ErrorToProto(err *api.Error) *apiv1.Error {
	if err == nil {
		return nil
	}
	return &apiv1.Error{
		Kind:         apiv1.ErrorKind(err.Kind),
		Op:           cut(clean(err.Op), errorBytesMax),
		Subject:      cut(clean(err.Subject), errorBytesMax),
		Message:      cut(clean(causeText(err)), errorBytesMax),
		Leader:       clean(LeaderOf(err)),
		Revoked:      isDeniedBy[protocol.Revoked](err),
		RetryAfter:   DurationToProto(api.RetryAfter(err)),
		OtherCluster: isDeniedBy[protocol.OtherCluster](err),
	}
}

// isDeniedBy says whether the error is of kind Denied and has a cause of this type.
func isDeniedBy[Cause error](err *api.Error) bool {
	var cause Cause
	return err.Kind == api.Denied && errors.As(err.Err, &cause)
}

// causeText returns the text of the cause. If the cause has the same kind, the kind is left out of it.
func causeText(err *api.Error) string {
	if err.Err == nil {
		return ""
	}
	inner, ok := err.Err.(*api.Error) //nolint:errorlint // only the direct cause has a text of its own
	if !ok || inner.Kind != err.Kind {
		return err.Err.Error()
	}
	var parts []string
	for _, part := range []string{inner.Op, inner.Subject, causeText(inner)} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// ErrorFromProto reads an error; absent is nil. A kind that this version does not
// know is Internal.
func ErrorFromProto(m *apiv1.Error) *api.Error {
	if m == nil {
		return nil
	}
	e := &api.Error{Op: m.Op, Kind: kindFromProto(m.Kind), Subject: m.Subject}
	switch {
	case e.Kind == api.NotLeader && m.Leader == "" && strings.HasPrefix(m.Message, nobodyLeads):
		e.Err = nobody(m.Message[len(nobodyLeads):])
	case e.Kind == api.NotLeader:
		e.Err = leader(m.Leader)
	case e.Kind == api.Denied && m.Revoked:
		e.Err = protocol.Revoked(m.Message)
	case e.Kind == api.Denied && m.OtherCluster:
		e.Err = protocol.OtherCluster(m.Message)
	case m.Message != "":
		e.Err = errors.New(m.Message)
	}
	return e.RetryIn(retryAfterFromProto(m.RetryAfter))
}

// retryAfterFromProto limits the time that a peer asks for.
func retryAfterFromProto(m *durationpb.Duration) time.Duration {
	return min(max(m.AsDuration(), 0), retryAfterMax)
}

func kindFromProto(kind apiv1.ErrorKind) api.Kind {
	if !known(kind, apiv1.ErrorKind_name) {
		return api.Internal
	}
	return api.Kind(kind)
}

// kindCodes is the one place that maps kinds to gRPC codes.
var kindCodes = [...]codes.Code{
	api.Internal:    codes.Internal,
	api.Invalid:     codes.InvalidArgument,
	api.NotFound:    codes.NotFound,
	api.Exists:      codes.AlreadyExists,
	api.Stale:       codes.FailedPrecondition,
	api.Denied:      codes.PermissionDenied,
	api.Limit:       codes.ResourceExhausted,
	api.Unavailable: codes.Unavailable,
	api.NotLeader:   codes.Unavailable,
	api.Fenced:      codes.Aborted,
	api.Removed:     codes.FailedPrecondition,
	api.Unknown:     codes.Unknown,
	api.Unsupported: codes.Unimplemented,
}

// Status makes the error that a gRPC handler returns: the code of its kind, and the error itself as a detail. nil stays
// nil, and an error that is a gRPC status already stays as it is.
func Status(err error) error {
	if err == nil {
		return nil
	}
	var e *api.Error
	if !errors.As(err, &e) {
		return foreignStatus(err)
	}
	code := codes.Internal
	if int(e.Kind) < len(kindCodes) {
		code = kindCodes[e.Kind]
	}
	answer := status.New(code, cut(clean(err.Error()), errorBytesMax))
	if detailed, err := answer.WithDetails(ErrorToProto(e)); err == nil {
		answer = detailed
	}
	return answer.Err()
}

func foreignStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if code := status.FromContextError(err).Code(); code != codes.Unknown {
		return status.Error(code, err.Error())
	}
	return status.Error(codes.Internal, cut(clean(err.Error()), errorBytesMax))
}

// Error is the inverse of Status, for callers. It returns the error of the other side, or that of the transport as a
// sentence; nil for nil. The result is a pointer: assign it to a variable of type error only if it is not nil.
func Error(err error) *api.Error {
	if err == nil {
		return nil
	}
	var e *api.Error
	if errors.As(err, &e) {
		return e
	}
	answer, ok := status.FromError(err)
	if !ok {
		return transportError(err)
	}
	for _, detail := range answer.Details() {
		if m, ok := detail.(*apiv1.Error); ok {
			return ErrorFromProto(m)
		}
	}
	return bareStatus(answer)
}

// transportError describes an error that never was a gRPC status.
func transportError(err error) *api.Error {
	switch {
	case errors.Is(err, io.EOF):
		return api.E("call", api.Unavailable, "", errors.New("the other side has ended the stream"))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return api.E("call", api.Unknown, "", err)
	}
	return api.E("call", api.Unavailable, "", err)
}

// bareStatus describes a status that gRPC itself made, and not Tender.
func bareStatus(answer *status.Status) *api.Error {
	text := errors.New(answer.Message())
	switch answer.Code() {
	case codes.InvalidArgument:
		return api.E("call", api.Invalid, "", text)
	case codes.PermissionDenied, codes.Unauthenticated:
		return api.E("call", api.Denied, "", text)
	case codes.ResourceExhausted:
		return api.E("call", api.Limit, "", text)
	case codes.Unimplemented:
		return api.E("call", api.Unsupported, "", errors.New("the other side does not know this call; is it a Tender of this version? "+
			answer.Message()))
	case codes.DeadlineExceeded:
		return api.E("call", api.Unknown, "", errors.New("no answer in time"))
	case codes.Canceled:
		return api.E("call", api.Unknown, "", errors.New("given up before the answer"))
	case codes.Internal:
		return api.E("call", api.Internal, "", text)
	}
	return api.E("call", api.Unavailable, "", errors.New("the other side can't be reached: "+answer.Message()))
}
