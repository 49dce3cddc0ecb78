package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// auditBytesMax is when the audit log is put aside as FILE.1, FILE.1 as FILE.2 and so on.
	auditBytesMax = 16 << 20
	// auditFilesMax bounds the files that are put aside; the oldest goes.
	auditFilesMax = 4
	// auditSubjectBytesMax bounds what a line says of the request; a longer one is cut off.
	auditSubjectBytesMax = 4 << 10
	auditFile            = "audit.log"
)

// audit is the file of changes. Nil writes nothing.
type audit struct {
	mu    sync.Mutex
	path  string // "": standard output
	file  io.Writer
	bytes int64
}

// openAudit begins or goes on with the file that the setting means.
func openAudit(setting, dir string) (*audit, error) {
	switch {
	case setting == "off" || setting == "" && dir == "":
		return nil, nil
	case setting == "-":
		return &audit{file: os.Stdout}, nil
	case setting == "":
		setting = filepath.Join(dir, auditFile)
	}
	a := &audit{path: setting}
	if err := a.open(); err != nil {
		return nil, api.E("master.audit", api.Unavailable, setting, fmt.Errorf("the audit log can't be opened; name another file with --audit-log, or 'off': %w", err))
	}
	return a, nil
}

func (a *audit) open() error {
	file, err := os.OpenFile(a.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	a.file, a.bytes = file, info.Size()
	return nil
}

func (a *audit) close() error {
	if a == nil || a.path == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closeFile()
}

func (a *audit) closeFile() error {
	closer, is := a.file.(io.Closer)
	if a.file = nil; !is {
		return nil
	}
	return closer.Close()
}

// line is one change, as it stands in the audit log.
type line struct {
	At     time.Time       `json:"at"`
	Who    string          `json:"who"`
	From   string          `json:"from"`
	Call   string          `json:"call"`
	On     json.RawMessage `json:"on,omitempty"`
	Cut    bool            `json:"cut,omitempty"` // On was too long, and is left out
	Result string          `json:"result"`
	Why    string          `json:"why,omitempty"`
	Index  uint64          `json:"index"` // of the registry when it was answered
}

func (a *audit) write(l line) error {
	if a == nil {
		return nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.path != "" && (a.file == nil || a.bytes+int64(len(text)) > auditBytesMax) {
		if err := a.rotate(); err != nil {
			return err
		}
	}
	n, err := a.file.Write(text)
	a.bytes += int64(n)
	return err
}

// rotate puts a full file aside and begins anew.
func (a *audit) rotate() error {
	if a.file != nil {
		if err := a.closeFile(); err != nil {
			return err
		}
		for i := auditFilesMax - 1; i > 0; i-- {
			if err := os.Rename(aside(a.path, i), aside(a.path, i+1)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		if err := os.Rename(a.path, aside(a.path, 1)); err != nil {
			return err
		}
	}
	return a.open()
}

func aside(path string, i int) string { return fmt.Sprintf("%s.%d", path, i) }

// writeDown says what came of a call that changes something. Calls of those whom nobody knows are counted alone, so that they
// fill no disk.
func (g *Guard) writeDown(ctx context.Context, p permit, request any, result error) {
	l := line{At: time.Now().UTC(), Who: p.caller.String(), From: From(ctx), Call: p.row.Call, Result: "ok", Index: g.index()}
	if result != nil {
		known := wire.Error(result)
		l.Result, l.Why = known.Kind.String(), known.Error()
	}
	if message, is := request.(proto.Message); is {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(withoutSecrets(message))
		if l.Cut = err != nil || len(text) > auditSubjectBytesMax; !l.Cut {
			l.On = text
		}
	}
	g.log.Info().Str("who", l.Who).Str("from", l.From).Str("call", l.Call).RawJSON("on", orNull(l.On)).Str("result", l.Result).Msg("change asked for")
	if err := g.audit.write(l); err != nil {
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

func orNull(text json.RawMessage) []byte {
	if text == nil {
		return []byte("null")
	}
	return text
}
