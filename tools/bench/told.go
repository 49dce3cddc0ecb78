package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenderhq/tender/internal/testing/freeports"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// bareTold has a process of ours send so many messages of one size over each of some connections, and returns how many
// seconds of processor time it takes for that. Who tells watchers as much can't take less.
func bareTold(ctx context.Context, connections int, messages, size int64) (seconds float64, err error) {
	ports, err := freeports.Reserve(1)
	if err != nil {
		return 0, err
	}
	address := fmt.Sprint("127.0.0.1:", ports[0])
	child, in, err := again(nil, "-only", "told", "-masters", address, "-tasks", fmt.Sprint(messages), "-spawns", fmt.Sprint(size))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close(), child.Wait()) }()
	if err := child.Start(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	streams := make([]grpc.ClientStream, connections)
	for i := range streams {
		conn, err := transport.Connect(address, transport.DialTCP)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		streams[i], err = conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/bare/told", grpc.WaitForReady(true), grpc.ForceCodecV2(new(undecoded)))
		if err == nil {
			_, err = streams[i].Header()
		}
		if err != nil {
			return 0, err
		}
	}
	before := ownCPU(child.Process.Pid)
	var told sync.WaitGroup
	failed := make(chan error, connections)
	for _, stream := range streams {
		told.Go(func() {
			err := stream.SendMsg(new(wrapperspb.BytesValue))
			for err == nil {
				err = stream.RecvMsg(nil)
			}
			if !errors.Is(err, io.EOF) {
				failed <- err
			}
		})
	}
	told.Wait()
	close(failed)
	return ownCPU(child.Process.Pid) - before, <-failed
}

// toldMain is the main function of such a process.
func toldMain(ctx context.Context, o options) error {
	ctx, cancel := untilInputEnds(ctx)
	defer cancel()
	listener, err := transport.ListenTCP(o.masters)
	if err != nil {
		return err
	}
	message := mem.BufferSlice{mem.SliceBuffer(make([]byte, o.spawns))}
	server := grpc.NewServer(grpc.ForceServerCodecV2(new(undecoded)), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		err := errors.Join(stream.SendHeader(nil), stream.RecvMsg(nil))
		for i := 0; i < o.tasks && err == nil; i++ {
			err = stream.SendMsg(message)
		}
		return err
	}))
	defer context.AfterFunc(ctx, server.Stop)()
	return server.Serve(listener)
}
