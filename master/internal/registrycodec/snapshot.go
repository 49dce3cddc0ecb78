package registrycodec

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"runtime"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// The format of a snapshot is described at logpb.SnapshotHead.

const snapshotMagic = "TENDER-REGISTRY\n"

// frameBytesMax bounds how much is read at once, in case a length is damaged.
const frameBytesMax = CommandBytesMax + 1<<20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Head is the description at the beginning of a snapshot.
type Head struct {
	Cluster api.ClusterID
	Index   uint64
	Term    uint64
	Hash    string
	MetaSum string // of what Raft's library stores beside it; "": not known
}

// WriteSnapshot writes the state. Nobody may change it meanwhile, so it is usually a clone.
func WriteSnapshot(w io.Writer, state *registry.State, term uint64) error {
	return WriteSealedSnapshot(w, state, term, "")
}

// WriteSealedSnapshot also writes a checksum of what Raft's library stores beside the snapshot.
func WriteSealedSnapshot(w io.Writer, state *registry.State, term uint64, metaSum string) error {
	out := &frameWriter{crc: crc32.New(castagnoli)}
	buffered := bufio.NewWriterSize(io.MultiWriter(w, out.crc), 64<<10)
	out.w = buffered
	out.bytes([]byte(snapshotMagic))
	head := contentHead(state)
	head.Index, head.Term, head.Hash, head.Items = state.Index, term, Hash(state), countItems(state)
	head.MetaSum = metaSum
	out.frame(head)
	eachItem(state, out.frame)
	out.bytes([]byte{0})
	if out.err == nil {
		out.err = buffered.Flush()
	}
	if out.err != nil {
		return out.err
	}
	_, err := w.Write(binary.LittleEndian.AppendUint32(nil, out.crc.Sum32()))
	return err
}

// contentHead returns the head of a snapshot with only the registry's content.
func contentHead(state *registry.State) *logpb.SnapshotHead {
	return &logpb.SnapshotHead{
		Format: uint32(max(state.Format, 1)), ClusterId: string(state.Cluster), Epoch: state.Epoch,
		NextAgent: state.NextAgent, NextFramework: state.NextFramework, NextVolume: state.NextVolume,
		LostAgents: wire.Each(state.LostAgents, numbersToLog), LostFrameworks: wire.Each(state.LostFrameworks, numbersToLog),
		Quotas: state.Quotas, Receipts: receiptsToLog(state.Receipts), Authority: authorityToLog(state.Authority),
		UsageUntil: wire.TimeToProto(state.Usage.Until),
	}
}

func countItems(state *registry.State) uint64 {
	n := len(state.Masters) + len(state.Agents) + len(state.Frameworks) + len(state.Roles) + len(state.Clients) +
		len(state.Principals) + len(state.Tokens) + len(state.Secrets) + len(state.Barred) + len(state.Usage.Periods)
	for _, framework := range state.Frameworks {
		n += len(framework.Store)
	}
	return uint64(n)
}

// eachItem calls yield for the items of a snapshot, in the order of their kinds and keys. For a large registry that
// takes seconds, so it yields the processor after each item. Otherwise Go's scheduler would let everything else, even
// an offer, wait for 10 ms at a time.
func eachItem(state *registry.State, take func(proto.Message)) {
	yield := func(m proto.Message) {
		take(m)
		runtime.Gosched()
	}
	for _, id := range slices.Sorted(maps.Keys(state.Masters)) {
		yield(&logpb.SnapshotItem{Item: &logpb.SnapshotItem_Master{Master: &logpb.MasterItem{Id: string(id), Master: masterToLog(state.Masters[id])}}})
	}
	for _, id := range slices.Sorted(maps.Keys(state.Agents)) {
		yield(&logpb.SnapshotItem{Item: &logpb.SnapshotItem_Agent{Agent: agentToLog(state.Agents[id])}})
	}
	for _, id := range slices.Sorted(maps.Keys(state.Frameworks)) {
		framework := state.Frameworks[id]
		yield(&logpb.SnapshotItem{Item: &logpb.SnapshotItem_Framework{Framework: frameworkToLog(framework)}})
		for _, key := range slices.Sorted(maps.Keys(framework.Store)) {
			entry := framework.Store[key]
			yield(&logpb.SnapshotItem{Item: &logpb.SnapshotItem_Store{Store: &logpb.StoreItem{Key: key, Value: entry.Value, Version: entry.Version}}})
		}
	}
	for _, role := range slices.Sorted(maps.Keys(state.Roles)) {
		yield(&logpb.SnapshotItem{Item: &logpb.SnapshotItem_Role{Role: &logpb.RoleItem{Role: string(role), Set: roleToLog(state.Roles[role])}}})
	}
	for _, name := range slices.Sorted(maps.Keys(state.Clients)) {
		c := state.Clients[name]
		yield(&logpb.SnapshotItem{Item: &logpb.SnapshotItem_Client{Client: &logpb.ClientItem{
			Name: name, Counter: c.Counter, Seen: wire.TimeToProto(c.Seen), Result: resultToLog(c.Result),
		}}})
	}
	for _, name := range slices.Sorted(maps.Keys(state.Principals)) {
		yield(&logpb.SnapshotItem{Item: &logpb.SnapshotItem_Principal{Principal: principalToLog(name, state.Principals[name])}})
	}
	for _, id := range slices.Sorted(maps.Keys(state.Tokens)) {
		yield(&logpb.SnapshotItem{Item: &logpb.SnapshotItem_Token{Token: tokenToLog(state.Tokens[id])}})
	}
	for _, id := range slices.Sorted(maps.Keys(state.Secrets)) {
		yield(&logpb.SnapshotItem{Item: &logpb.SnapshotItem_Secret{Secret: secretToLog(id, state.Secrets[id])}})
	}
	for _, nonce := range slices.Sorted(maps.Keys(state.Barred)) {
		yield(&logpb.SnapshotItem{Item: &logpb.SnapshotItem_Barred{Barred: &logpb.BarredItem{
			Nonce: string(nonce), Since: wire.TimeToProto(state.Barred[nonce]),
		}}})
	}
	for _, period := range state.Usage.Periods {
		yield(&logpb.SnapshotItem{Item: &logpb.SnapshotItem_Usage{Usage: usageToLog(period)}})
	}
}

// frameWriter writes frames, and keeps the first error.
type frameWriter struct {
	w   io.Writer
	crc interface {
		io.Writer
		Sum32() uint32
	}
	buffer []byte
	err    error
}

func (f *frameWriter) bytes(data []byte) {
	if f.err == nil {
		_, f.err = f.w.Write(data)
	}
}

func (f *frameWriter) frame(m proto.Message) {
	if f.err != nil {
		return
	}
	f.buffer = binary.AppendUvarint(f.buffer[:0], uint64(proto.Size(m)))
	f.buffer, f.err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(f.buffer, m)
	f.bytes(f.buffer)
}

// ReadHead reads only the head of a snapshot.
func ReadHead(r io.Reader) (Head, error) {
	head, err := newFrameReader(r).head()
	return headOf(head), err
}

func headOf(m *logpb.SnapshotHead) Head {
	return Head{
		Cluster: api.ClusterID(m.GetClusterId()), Index: m.GetIndex(), Term: m.GetTerm(),
		Hash: m.GetHash(), MetaSum: m.GetMetaSum(),
	}
}

// ReadSnapshot reads a whole snapshot. It returns an error unless length, checksum and the state's hash are right.
func ReadSnapshot(r io.Reader) (*registry.State, Head, error) {
	in := newFrameReader(r)
	m, err := in.head()
	if err != nil {
		return nil, Head{}, err
	}
	state := registry.New()
	state.Cluster = api.ClusterID(m.ClusterId)
	state.Epoch, state.Index, state.Format = m.Epoch, m.Index, uint64(m.Format)
	state.NextAgent, state.NextFramework, state.NextVolume = m.NextAgent, m.NextFramework, m.NextVolume
	state.LostAgents, state.LostFrameworks = wire.Each(m.LostAgents, numbersFromLog), wire.Each(m.LostFrameworks, numbersFromLog)
	state.Quotas, state.Receipts = m.Quotas, receiptsFromLog(m.Receipts)
	state.Authority = authorityFromLog(m.Authority)
	state.Usage.Until = wire.TimeOf(m.UsageUntil)
	items, err := readItems(in, state)
	if err == nil {
		err = in.sum()
	}
	switch {
	case err != nil:
		return nil, Head{}, fmt.Errorf("the snapshot is %w: %w", ErrDamaged, err)
	case items != m.Items:
		return nil, Head{}, fmt.Errorf("the snapshot is %w: it holds %d items and says %d", ErrDamaged, items, m.Items)
	case Hash(state) != m.Hash:
		return nil, Head{}, fmt.Errorf("the snapshot is %w: its hash is wrong", ErrDamaged)
	}
	return state, headOf(m), nil
}

type frameReader struct {
	r   *bufio.Reader
	crc uint32
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 64<<10)}
}

func (f *frameReader) ReadByte() (byte, error) {
	b, err := f.r.ReadByte()
	if err == nil {
		f.crc = crc32.Update(f.crc, castagnoli, []byte{b})
	}
	return b, err
}

func (f *frameReader) full(data []byte) error {
	_, err := io.ReadFull(f.r, data)
	f.crc = crc32.Update(f.crc, castagnoli, data)
	return err
}

func (f *frameReader) head() (*logpb.SnapshotHead, error) {
	magic := make([]byte, len(snapshotMagic))
	if err := f.full(magic); err != nil || string(magic) != snapshotMagic {
		return nil, errors.New("this is no snapshot of a registry")
	}
	m := &logpb.SnapshotHead{}
	if _, err := f.frame(m); err != nil {
		return nil, fmt.Errorf("the snapshot is %w: %w", ErrDamaged, err)
	}
	return m, checkFormat("the snapshot", m.Format)
}

// frame reads the next message; more is false at the end.
func (f *frameReader) frame(m proto.Message) (more bool, err error) {
	size, err := binary.ReadUvarint(f)
	switch {
	case err != nil:
		return false, err
	case size == 0:
		return false, nil
	case size > frameBytesMax:
		return false, fmt.Errorf("a frame of %d bytes", size)
	}
	data := make([]byte, size)
	if err := f.full(data); err != nil {
		return false, err
	}
	return true, proto.Unmarshal(data, m)
}

func (f *frameReader) sum() error {
	want := f.crc
	var data [4]byte
	if _, err := io.ReadFull(f.r, data[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(data[:]) != want {
		return errors.New("its checksum is wrong")
	}
	return nil
}

func readItems(in *frameReader, state *registry.State) (count uint64, err error) {
	state.Masters = make(map[api.MasterID]registry.Master)
	state.Agents = make(map[api.AgentID]registry.Agent)
	state.Frameworks = make(map[api.FrameworkID]registry.Framework)
	state.Roles = make(map[api.Role]registry.Role)
	state.Clients = make(map[string]registry.Client)
	state.Principals = make(map[string]registry.Principal)
	state.Tokens = make(map[string]registry.Token)
	state.Secrets = make(map[api.SecretID]registry.Secret)
	state.Barred = make(map[api.Nonce]time.Time)
	var owner api.FrameworkID // the framework of the store items that follow
	for ; ; count++ {
		m := &logpb.SnapshotItem{}
		more, err := in.frame(m)
		if err != nil || !more {
			return count, err
		}
		if owner, err = readItem(state, m, owner); err != nil {
			return count, err
		}
	}
}

func readItem(state *registry.State, m *logpb.SnapshotItem, owner api.FrameworkID) (api.FrameworkID, error) {
	switch item := m.Item.(type) {
	case *logpb.SnapshotItem_Master:
		state.Masters[api.MasterID(item.Master.Id)] = masterFromLog(item.Master.Master)
	case *logpb.SnapshotItem_Agent:
		agent := agentFromLog(item.Agent)
		state.Agents[agent.Agent.ID] = agent
	case *logpb.SnapshotItem_Framework:
		framework := frameworkFromLog(item.Framework)
		owner = framework.Framework.ID
		state.Frameworks[owner] = framework
	case *logpb.SnapshotItem_Store:
		framework, ok := state.Frameworks[owner]
		if !ok {
			return owner, errors.New("a store without its framework")
		}
		if framework.Store == nil {
			framework.Store = make(map[string]registry.Entry)
		}
		framework.Store[item.Store.Key] = registry.Entry{Value: item.Store.Value, Version: item.Store.Version}
		framework.StoreSize += int64(len(item.Store.Key) + len(item.Store.Value))
		state.Frameworks[owner] = framework
	case *logpb.SnapshotItem_Role:
		state.Roles[api.Role(item.Role.Role)] = roleFromLog(item.Role.Set)
	case *logpb.SnapshotItem_Client:
		state.Clients[item.Client.Name] = registry.Client{
			Counter: item.Client.Counter, Seen: wire.TimeOf(item.Client.Seen), Result: resultFromLog(item.Client.Result),
		}
	case *logpb.SnapshotItem_Principal:
		state.Principals[item.Principal.Name] = principalFromLog(item.Principal)
	case *logpb.SnapshotItem_Token:
		token := tokenFromLog(item.Token)
		state.Tokens[token.ID] = token
	case *logpb.SnapshotItem_Secret:
		state.Secrets[api.SecretID(item.Secret.GetName())] = secretFromLog(item.Secret)
	case *logpb.SnapshotItem_Usage:
		state.Usage.Periods = append(state.Usage.Periods, usageFromLog(item.Usage))
	case *logpb.SnapshotItem_Barred:
		state.Barred[api.Nonce(item.Barred.GetNonce())] = wire.TimeOf(item.Barred.GetSince())
	default:
		return owner, errors.New("an item of a kind that this version does not know")
	}
	return owner, nil
}
