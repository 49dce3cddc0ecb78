package guard

import (
	"context"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tenderhq/tender/internal/audit"
	"github.com/tenderhq/tender/internal/wire"
)

// writeDown says what came of a call that changes something. Calls of those whom nobody knows are counted alone, so that they
// fill no disk.
func (g *Guard) writeDown(ctx context.Context, p permit, request any, result error) {
	l := audit.Line{At: time.Now().UTC(), Who: p.caller.String(), From: From(ctx), Call: p.row.Call, Result: "ok", Index: g.index()}
	if result != nil {
		known := wire.Error(result)
		l.Result = known.Kind.String()
		l.SetWhy(known.Error())
	}
	if message, is := request.(proto.Message); is {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(withoutSecrets(message))
		if err != nil {
			text = nil
		}
		l.SetOn(text)
	}
	g.log.Info().Str("who", l.Who).Str("from", l.From).Str("call", l.Call).RawJSON("on", l.Shown()).Str("result", l.Result).Msg("change asked for")
	g.recent.Add(&l)
	if err := g.audit.Write(l); err != nil {
		g.log.Error().Err(err).Msg("the audit log can't be written")
	}
}

// withoutSecrets is the request without what the protocol marks as secret (debug_redact).
func withoutSecrets(request proto.Message) proto.Message {
	var secret []protoreflect.FieldDescriptor
	request.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if options, is := field.Options().(*descriptorpb.FieldOptions); is && options.GetDebugRedact() {
			secret = append(secret, field)
		}
		return true
	})
	if len(secret) == 0 {
		return request
	}
	open := proto.Clone(request)
	for _, field := range secret {
		open.ProtoReflect().Clear(field)
	}
	return open
}
