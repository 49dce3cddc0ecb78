package guard

import (
	"context"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tenderhq/tender/internal/audit"
	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/internal/wire"
)

// note is what is written down of a call beside its request. The goroutine that serves the call owns it.
type note struct {
	done  bool // Done has heard of the call
	about []audit.Object
}

// writtenDown says whether a call leaves a line. Calls of those whom nobody knows are counted alone, so that they fill no disk.
func (p permit) writtenDown() bool {
	return p.row.Changes && p.caller.Kind != rights.Nobody && p.caller.Kind != ""
}

// WritesDown says whether a call that Admit has decided about leaves a line of the audit log, which its request belongs to.
func WritesDown(ctx context.Context) bool {
	p, has := permitOf(ctx)
	return has && p.writtenDown()
}

// About says on what a call is, beside what its request names: something that the master has named, or that the request calls
// by another of its names. For the goroutine that serves the call.
func About(ctx context.Context, objects ...audit.Object) {
	if p, has := permitOf(ctx); has {
		p.note.about = append(p.note.about, objects...)
	}
}

// writeDown says what came of a call that changes something.
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
