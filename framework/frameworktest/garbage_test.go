package frameworktest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/internal/direct"
)

// vandal sends what no proper peer sends: noise instead of a protocol, and messages of the right types with any
// content, out of order, too many and too large. It knows the names that are in use.
type vandal struct {
	random *rand.Rand
	names  []string // in use
	sent   int
	heard  int
}

// heapGrowthMax is how much a thousand messages may leave on the heap. Sessions, tombstones and logs stay, each
// bounded.
const heapGrowthMax = 64 << 20

// TestGarbage checks promise 10 with whole processes: whatever is sent to masters and agents, none of them ends or
// grows, and the work beside it is completed.
func TestGarbage(t *testing.T) {
	rounds := 2
	switch {
	case os.Getenv("TENDER_TEST_LONG") != "":
		rounds = 40
	case testing.Short():
		rounds = 1
	}
	seed := max(*seedFlag, 1)
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 2, Seed: seed}, func(c *frameworktest.Handle) {
		b := newBatch(40*rounds, "sleep 4")
		f := c.Start(framework.Config{Name: "batch", Roles: []api.Role{"work"}}, b)
		f.AwaitCount(4, api.TaskRunning)
		v := &vandal{random: rand.New(rand.NewPCG(seed, 9)), names: []string{
			string(f.ID()), "batch", string(c.Agent(1).ID()), "agent-host-1", "command", "job-1-1", "job-2-1",
			"offer-2-1", "offer-2-7", "work", "default", "cluster", "cpus", "mem", "ports", "master-1", "m1", "", "é", "../../etc/passwd", "a/b", "\x00",
		}}
		var before uint64
		for round := range rounds {
			v.rampage(t, c)
			if round == 0 {
				before = heap()
			}
		}
		t.Logf("seed %d: %d messages sent, %d answers heard", seed, v.sent, v.heard)
		if after := heap(); after > before+heapGrowthMax {
			t.Errorf("the heap grew from %d to %d MB", before>>20, after>>20)
		}
		for i, m := range c.Masters() {
			if !m.Running() {
				t.Errorf("master %d has ended", i+1)
			}
		}
		for i, a := range c.Agents() {
			if !a.Running() {
				t.Errorf("agent %d has ended", i+1)
			}
		}
		if err := f.Await(); err != nil {
			t.Error(err)
		}
		f.ExpectCount(40*rounds, api.TaskFinished)
	})
}

// heap returns the bytes in use. It collects twice, because what lies in a pool survives one collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// rampage attacks each listener and each service once.
func (v *vandal) rampage(t *testing.T, c *frameworktest.Handle) {
	masters, rafts, agents := c.Listeners()
	dial := c.DialFrom("vandal")
	for _, address := range append(append(rafts, masters...), agents...) {
		v.noise(dial, address)
		c.Advance(100 * time.Millisecond)
	}
	for _, address := range append(masters, agents...) {
		conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
		if err != nil {
			t.Fatal(err)
		}
		for _, service := range []string{"SchedulerService", "AgentService", "ExecutorService", "OperatorService", "StoreService", "RaftService", "MasterService"} {
			v.service(protoreflect.FullName("tender.v1."+service), func(ctx context.Context, path string) (grpc.ClientStream, error) {
				if path == apiv1.AgentService_Session_FullMethodName {
					return direct.Open[apiv1.AgentCalls, apiv1.AgentEvents](ctx, dial, address, api.MessageBytesMax)
				}
				return conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path)
			})
		}
		_ = conn.Close()
	}
	c.Advance(time.Second)
}

// noise sends bytes of no protocol.
func (v *vandal) noise(dial func(context.Context, string) (net.Conn, error), address string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, begin := range []string{"", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x04"} {
		conn, err := dial(ctx, address)
		if err != nil {
			return // the other side has closed the connection
		}
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write(append([]byte(begin), v.bytes(1+v.random.IntN(4000))...)) // the other side may hang up
		v.sent++
		_, _ = conn.Read(make([]byte, 100))
		_ = conn.Close()
	}
}

// dangerous has the methods whose garbage could be a valid order of an operator.
var dangerous = map[protoreflect.Name]bool{"TransferLeader": true, "RemovePeer": true, "AddPeer": true, "MarkAgent": true, "RemoveFramework": true, "KillTask": true, "SetRole": true, "Reserve": true, "Announce": true}

// opener opens the stream of a method.
type opener = func(ctx context.Context, path string) (grpc.ClientStream, error)

func (v *vandal) service(name protoreflect.FullName, open opener) {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		panic(err) // the list of services is wrong
	}
	methods := found.(protoreflect.ServiceDescriptor).Methods()
	for i := range methods.Len() {
		method := methods.Get(i)
		for range 6 {
			names := v.names
			if dangerous[method.Name()] {
				v.names = []string{"", "zz", "é", "../..", "zz:1", "\x00"}
			}
			v.call(open, method)
			v.names = names
		}
	}
}

// call opens one stream, sends several messages, and listens for a moment.
func (v *vandal) call(open opener, method protoreflect.MethodDescriptor) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(50+v.random.IntN(2000))*time.Millisecond)
	defer cancel()
	stream, err := open(ctx, "/"+string(method.Parent().FullName())+"/"+string(method.Name()))
	if err != nil {
		return
	}
	if first := v.opening(method); first != nil && v.random.IntN(4) > 0 {
		_ = stream.SendMsg(first)
		v.listen(stream)
	}
	for range 1 + v.random.IntN(20) {
		m := newMessage(method.Input())
		v.fill(m.ProtoReflect(), 5)
		if v.random.IntN(40) == 0 {
			m = &apiv1.SchedulerCalls{Calls: []*apiv1.SchedulerCall{{Number: 1, Call: &apiv1.SchedulerCall_Message{Message: &apiv1.MessageExecutor{Data: make([]byte, 8<<20)}}}}}
		}
		v.sent++
		if stream.SendMsg(m) != nil {
			break
		}
		if !method.IsStreamingClient() {
			break
		}
	}
	_ = stream.CloseSend()
	for v.listen(stream) {
	}
}

func (v *vandal) listen(stream grpc.ClientStream) bool {
	var anything apiv1.GetClusterRequest // unknown fields are kept
	err := stream.RecvMsg(&anything)
	if err == nil {
		v.heard++
	}
	return err == nil
}

// opening is the first message of a proper peer. With it the following garbage gets further than to the first check.
// What it registers does not disturb the work beside it.
func (v *vandal) opening(method protoreflect.MethodDescriptor) proto.Message {
	nonce := fmt.Sprintf("vandal-%d", v.random.IntN(3))
	switch method.Parent().Name() {
	case "SchedulerService":
		return &apiv1.SchedulerCalls{Calls: []*apiv1.SchedulerCall{{Number: 1, Call: &apiv1.SchedulerCall_Subscribe{Subscribe: &apiv1.Subscribe{
			Instance: nonce, Framework: &apiv1.Framework{Name: nonce, Roles: []string{"idle"}},
		}}}}}
	case "AgentService":
		return &apiv1.AgentCalls{Calls: []*apiv1.AgentCall{{Call: &apiv1.AgentCall_Register{Register: &apiv1.RegisterAgent{
			Nonce: nonce, BootId: nonce, Agent: &apiv1.Agent{Hostname: nonce},
		}}}}}
	}
	return nil
}

func newMessage(of protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		panic(err) // it is in a method of a service that is linked in
	}
	return kind.New().Interface()
}

// fill puts random values into a message.
func (v *vandal) fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	oneofs := m.Descriptor().Oneofs()
	chosen := make(map[protoreflect.FullName]bool)
	for i := range oneofs.Len() {
		of := oneofs.Get(i).Fields()
		chosen[of.Get(v.random.IntN(of.Len())).FullName()] = true
	}
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.ContainingOneof() != nil && !chosen[field.FullName()], v.random.IntN(4) == 0 && field.ContainingOneof() == nil:
		case field.Message() != nil && depth == 0:
		case field.IsMap():
			for range v.random.IntN(3) {
				value := m.NewField(field).Map().NewValue()
				if field.MapValue().Message() != nil {
					v.fill(value.Message(), depth-1)
				} else {
					value = v.value(field.MapValue())
				}
				m.Mutable(field).Map().Set(v.value(field.MapKey()).MapKey(), value)
			}
		case field.IsList():
			v.fillList(m.Mutable(field).List(), field, depth)
		case field.Message() != nil:
			v.fill(m.Mutable(field).Message(), depth-1)
		default:
			m.Set(field, v.value(field))
		}
	}
}

func (v *vandal) fillList(list protoreflect.List, field protoreflect.FieldDescriptor, depth int) {
	n := v.random.IntN(4)
	if v.random.IntN(50) == 0 {
		n = 300
	}
	for range n {
		if field.Message() == nil {
			list.Append(v.value(field))
			continue
		}
		element := list.NewElement()
		v.fill(element.Message(), depth-1)
		list.Append(element)
	}
}

// value returns a random value of the field's kind, mostly one that could be right or is just beyond the bound.
func (v *vandal) value(field protoreflect.FieldDescriptor) protoreflect.Value {
	number := []int64{0, 1, 2, 3, 7, 1000, -1, 1 << 31, -1 << 31, 1<<53 + 1, 1<<63 - 1, -1 << 63}[v.random.IntN(12)]
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(number%2 != 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(v.random.IntN(40) - 2))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(number))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(number))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(number)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(number))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(number))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(number) / 3)
	case protoreflect.StringKind:
		if v.random.IntN(10) == 0 {
			return protoreflect.ValueOfString(fmt.Sprintf("%x", v.bytes(v.random.IntN(2000))))
		}
		return protoreflect.ValueOfString(v.names[v.random.IntN(len(v.names))])
	default:
		return protoreflect.ValueOfBytes(v.bytes(v.random.IntN(300)))
	}
}

func (v *vandal) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(v.random.Uint32())
	}
	return b
}
