package web_test

import (
	"io"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// pipe is an answer that is read while it is written.
type pipe struct {
	*io.PipeWriter
	header http.Header
}

func newPipe() (io.Reader, *pipe) {
	reader, writer := io.Pipe()
	return reader, &pipe{writer, http.Header{}}
}

func (p *pipe) Header() http.Header            { return p.header }
func (*pipe) WriteHeader(int)                  {}
func (*pipe) FlushError() error                { return nil }
func (*pipe) SetReadDeadline(time.Time) error  { return nil }
func (*pipe) SetWriteDeadline(time.Time) error { return nil }

// views are the addresses of all views, those of a thing with this name, escaped.
func views(name string) []string {
	return []string{
		"/", "/?by=state&fill=framework&size=mem", "/?by=" + name, "/agents", "/agents?q=" + name, "/agents/" + name, "/frameworks", "/frameworks/" + name,
		"/tasks", "/tasks?all=1&q=" + name, "/tasks/" + name + "/" + name, "/search?q=" + name, "/help",
	}
}

// newMessage makes an empty message of a type.
func newMessage(of protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		panic(err)
	}
	return kind.New().Interface()
}
