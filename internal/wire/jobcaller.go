package wire

import (
	"context"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// jobCallerKey is the metadata in which a master tells a job manager who makes a forwarded call.
const jobCallerKey = "tender-job-caller-bin"

// WithJobCaller returns ctx for a call to a job manager that a master forwards. The scope is that of the call's caller;
// what the caller itself has sent as metadata is not passed on.
func WithJobCaller(ctx context.Context, scope rights.Scope) (context.Context, error) {
	caller := &apiv1.JobCaller{Principal: scope.Who, Everything: scope.Everything, Grants: Each(scope.Grants, GrantToProto)}
	value, err := proto.Marshal(caller)
	return metadata.NewOutgoingContext(ctx, metadata.Pairs(jobCallerKey, string(value))), err
}

// JobCaller returns the scope that a call to a job manager brings; false: it brings none.
func JobCaller(ctx context.Context) (scope rights.Scope, told bool) {
	values := metadata.ValueFromIncomingContext(ctx, jobCallerKey)
	var caller apiv1.JobCaller
	if len(values) != 1 || proto.Unmarshal([]byte(values[0]), &caller) != nil {
		return rights.Scope{}, false
	}
	return rights.Scope{Who: caller.GetPrincipal(), Everything: caller.GetEverything(), Grants: Each(caller.GetGrants(), GrantFromProto)}, true
}
