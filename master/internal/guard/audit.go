package guard

import (
	"context"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tenderhq/tender/internal/trust/audit"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
)

// note is what the audit log says of a call beside its request. The goroutine that serves the call owns it.
type note struct {
	done  bool // Done was called for this call
	about []audit.Object
}

// writtenDown reports whether the call gets a line in the audit log. Calls of unknown callers do not, so that they
// can't fill the disk; they are only counted.
func (p permit) writtenDown() bool {
	return p.row.Changes && p.caller.Kind != rights.Nobody && p.caller.Kind != ""
}

// WritesDown reports whether a call that Admit has decided about gets a line in the audit log, which includes its
// request.
func WritesDown(ctx context.Context) bool {
	p, has := permitOf(ctx)
	return has && p.writtenDown()
}

// About adds objects that the call is about, beside those that its request names: something that the master has named,
// or whose ID the request does not say. Only the goroutine that serves the call may call it.
func About(ctx context.Context, objects ...audit.Object) {
	if p, has := permitOf(ctx); has {
		p.note.about = append(p.note.about, objects...)
	}
}

// writeDown writes the line for a call that was to change something.
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
	l.SetAbout(p.note.about)
	g.log.Info().Str("who", l.Who).Str("from", l.From).Str("call", l.Call).RawJSON("on", l.Shown()).Str("result", l.Result).Msg("change asked for")
	g.recent.Add(&l)
	if err := g.audit.Write(l); err != nil {
		g.unwritten.Inc()
		g.log.Error().Err(err).Str("who", l.Who).Str("call", l.Call).Msg("the audit log can't be written; the change goes on without its line")
	}
}

// withoutSecrets returns the request without the fields that the protocol marks as secret (debug_redact).
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
