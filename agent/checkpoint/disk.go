package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/protocol"
)

// Config is where a Disk is and how it behaves. Zero fields mean the defaults.
type Config struct {
	// Folder is the agent's own folder. It must exist, and the caller must hold its lock.
	Folder string
	// BootID is that of the machine's present boot. After another boot the machine may have crashed: a damaged log is
	// then cut where the damage begins, because nothing that it records still runs.
	BootID string
	// ReserveBytes is how much room is kept at least behind the end of the log for statuses and kills of what runs
	// (R14). Default 4 MiB.
	ReserveBytes int64
	// BloatBytes is the smallest size of a log at which a compaction is worth its cost. Default 16 MiB.
	BloatBytes int64
}

// Disk is a store in a folder: the files identity, identity.spare and checkpoint.log.
type Disk struct {
	config   Config
	identity identity
	known    []byte // the content of the identity file, once it is written
	log      *os.File
	size     int64 // the size of the log up to its last whole record
	room     int64 // the offset up to which the log has blocks
	base     int64 // the size of the log after its last compaction
	torn     bool  // behind size there is what a failed write has left
	sequence uint64
	buffer   []byte
	repaired string
	reserved bool // the file system can't allocate ahead, so the file reserve keeps the room
	deleted  bool // the file reserve was deleted to make room
	full     atomic.Bool
	bloated  atomic.Bool
	system   system
}

const (
	identityFile  = "identity"
	spareFile     = "identity.spare"
	logFile       = "checkpoint.log"
	reserveFile   = "reserve"
	identityMagic = "TNDRAID1"
	bufferKept    = 1 << 20 // a larger buffer is not kept after its use
	spareBytes    = 4096    // the least room for the next identity
)

var errGone = errors.New("the file " + logFile + " is gone")

// NewDisk makes the store of a folder. It does not touch the folder yet.
func NewDisk(config Config) *Disk {
	config.ReserveBytes = cmp.Or(config.ReserveBytes, 4<<20)
	config.BloatBytes = cmp.Or(config.BloatBytes, 16<<20)
	return &Disk{
		config:   config,
		identity: identity{generation: 1, volumes: map[api.VolumeID]protocol.Volume{}},
		system:   realSystem(),
	}
}

// Repaired says in words what Load has cut off or set aside; "" if nothing.
func (d *Disk) Repaired() string { return d.repaired }

func (d *Disk) path(name string) string { return filepath.Join(d.config.Folder, name) }

func (d *Disk) fail(err error) error {
	return api.E("checkpoint", api.Internal, d.config.Folder, err)
}

// Load reads the identity and the log, cuts off a torn tail, and allocates room ahead.
func (d *Disk) Load() ([]core.Record, error) {
	if err := d.Close(); err != nil { // the files of the life before a Reset
		return nil, d.fail(err)
	}
	known, err := d.loadIdentity()
	if err != nil {
		return nil, d.fail(err)
	}
	records, err := d.loadLog(known)
	if err != nil {
		return nil, d.fail(err)
	}
	if err := d.clearLeftovers(); err != nil {
		return nil, d.fail(err)
	}
	if !known {
		return nil, nil
	}
	if err := d.beginLog(); err != nil && !errors.Is(err, ErrNoRoom) {
		return nil, d.fail(err)
	}
	return append(d.identity.records(), records...), nil
}

func (d *Disk) loadIdentity() (known bool, err error) {
	data, err := os.ReadFile(d.path(identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if d.identity, err = parseIdentity(data); err == nil {
		d.makeSpare(max(spareBytes, 2*int64(len(data))))
	}
	return true, err
}

func parseIdentity(data []byte) (identity, error) {
	if err := checkMagic(data, identityMagic); err != nil {
		return identity{}, fmt.Errorf("the file %s: %w", identityFile, err)
	}
	payload, ok := bytes.CutPrefix(data, []byte(identityMagic))
	if ok = ok && len(payload) >= 4; ok {
		ok = binary.LittleEndian.Uint32(payload) == crc32.Checksum(payload[4:], castagnoli)
	}
	if !ok {
		return identity{}, errors.New("the file identity is damaged; restore it from a backup, or remove the folder to begin a new agent")
	}
	return decodeIdentity(payload[4:])
}

// loadLog reads the log, if it is of the identity's generation. A log of another generation is one that a Reset had no
// time to remove.
func (d *Disk) loadLog(known bool) ([]core.Record, error) {
	data, err := os.ReadFile(d.path(logFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, d.lost(errGone)
	}
	if err != nil {
		return nil, err
	}
	if of, ok := cutHeader(data); ok && of < d.identity.generation {
		return nil, os.Remove(d.path(logFile)) // its room is needed for the next log
	}
	if !known && len(data) > headerBytes {
		return nil, errors.New("the file identity is gone, but checkpoint.log is there; restore it from a backup, or remove the folder to begin a new agent")
	}
	held, err := parse(data, d.identity.generation)
	if errors.Is(err, errNewer) {
		return nil, fmt.Errorf("the file %s: %w", logFile, err)
	}
	if err != nil {
		if err := d.lost(fmt.Errorf("%s: %w", logFile, err)); err != nil {
			return nil, err
		}
	} else if held.good < len(data) {
		d.repaired = fmt.Sprintf("a torn tail of %d bytes was cut off", len(data)-held.good)
	}
	return held.records, d.openLog(int64(held.good), held.frames)
}

// lost decides what the loss of the log, or of a part of it, means. After a boot nothing that it recorded runs any
// more. Without a boot in between it is an error, because the agent must not forget what runs.
func (d *Disk) lost(why error) error {
	switch {
	case errors.Is(why, errGone) && !d.identity.logBegun: // no log was created yet
	case d.identity.BootID != d.config.BootID:
		d.repaired = "the machine was booted again and the log was damaged: " + why.Error() + "; it was read up to there"
	default:
		return fmt.Errorf("%w; tasks of this agent may be running; end them and remove the folder to begin a new agent", why)
	}
	return nil
}

func (d *Disk) openLog(good int64, frames uint64) error {
	if good < headerBytes {
		return nil // the first Append makes it again
	}
	file, err := os.OpenFile(d.path(logFile), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if info, err := file.Stat(); err != nil || info.Size() != good { // if the size is right, the blocks ahead stay
		if err := errors.Join(err, d.system.truncate(file, good)); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	d.log, d.size, d.room, d.sequence = file, good, good, frames
	d.base = good / 3 // much of it may be superseded: the first write finds out
	return nil
}

// Append writes records in their order. Those that are adjacent in the log are one group: they are read back whole or
// not at all (R35).
func (d *Disk) Append(records []core.Record) (written int, err error) {
	for written < len(records) {
		n := d.inLog(records[written:])
		if n > 0 {
			err = d.writeGroup(records[written : written+n])
		} else {
			n, err = d.changeIdentity(records[written:])
		}
		if err != nil {
			return written, d.fail(err)
		}
		written += n
	}
	return written, nil
}

// inLog counts the records up to the next one that belongs to the identity.
func (*Disk) inLog(records []core.Record) int {
	for n, record := range records {
		if belongs(record) {
			return n
		}
	}
	return len(records)
}

// changeIdentity writes the records up to the next one that belongs in the log, and returns how many these are.
func (d *Disk) changeIdentity(records []core.Record) (n int, err error) {
	next := d.identity.clone()
	for n < len(records) && next.take(records[n]) {
		n++
	}
	if err := d.writeIdentity(next); err != nil {
		return 0, err
	}
	if err := d.beginLog(); err != nil && !errors.Is(err, ErrNoRoom) {
		return 0, err
	}
	return n, nil
}

// beginLog makes sure that there is a log with room ahead, before there is something to write.
func (d *Disk) beginLog() error {
	if d.log == nil {
		if err := d.newLog(); err != nil {
			return err
		}
	}
	d.refill()
	return nil
}

// writeGroup writes all of the group to the log, or nothing of it.
func (d *Disk) writeGroup(group []core.Record) error {
	buffer, sequence, err := appendGroup(d.buffer[:0], d.identity.generation, d.sequence, group)
	if err != nil {
		return err
	}
	if d.buffer = buffer; cap(buffer) > bufferKept {
		d.buffer = nil
	}
	if d.log == nil {
		if err := d.newLog(); err != nil {
			return err
		}
	}
	if err := d.writeLog(buffer); err != nil {
		return err
	}
	d.sequence = sequence
	d.bloated.Store(d.size > d.config.BloatBytes && d.size > 3*d.base)
	d.refill()
	return nil
}

// writeLog writes all of data to the log. If it fails, the next write overwrites what it left.
func (d *Disk) writeLog(data []byte) error {
	if err := d.cutTorn(); err != nil {
		return err
	}
	if err := d.roomFor(int64(len(data))); err != nil {
		return err
	}
	n, err := d.system.write(d.log, data, d.size)
	if datafolder.IsDiskFull(err) && d.giveUpReserve() {
		n, err = d.system.write(d.log, data, d.size)
	}
	if err == nil {
		d.size += int64(n)
		d.room = max(d.room, d.size)
		return nil
	}
	d.torn = true
	if datafolder.IsDiskFull(err) {
		d.full.Store(true)
		return errors.Join(ErrNoRoom, d.cutTorn())
	}
	return err
}

// cutTorn removes what a failed write has left. Nothing is appended before that succeeds, because what stands behind
// the next record could be taken for a record.
func (d *Disk) cutTorn() error {
	if !d.torn {
		return nil
	}
	if err := d.system.truncate(d.log, d.size); err != nil {
		return fmt.Errorf("half a record could not be taken back from %s: %w", logFile, err)
	}
	d.torn, d.room = false, d.size // truncating removes the blocks ahead too
	return nil
}

// newLog begins a log where there is none.
func (d *Disk) newLog() error {
	return d.replaceLog(appendHeader(nil, d.identity.generation))
}

// replaceLog writes a new log beside the old one, if there is one. It counts only once it is in the place of the old
// one.
func (d *Disk) replaceLog(data []byte) error {
	temporary := d.path(logFile + ".new")
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = d.system.write(file, data, 0)
		if datafolder.IsDiskFull(err) && d.giveUpReserve() {
			_, err = d.system.write(file, data, 0)
		}
		if err == nil {
			err = os.Rename(temporary, d.path(logFile))
		}
		if err != nil {
			err = errors.Join(err, file.Close(), os.Remove(temporary))
		}
	}
	if datafolder.IsDiskFull(err) {
		d.full.Store(true)
		return ErrNoRoom
	}
	if err != nil {
		return err
	}
	if d.log != nil {
		err = d.log.Close()
	}
	d.log, d.size, d.room, d.base, d.torn = file, int64(len(data)), int64(len(data)), int64(len(data)), false
	return err
}

// Compact writes a new log and puts it in the place of the old one. If there is no room for both, the old one stays.
func (d *Disk) Compact(records []core.Record) error {
	next := identity{generation: d.identity.generation, volumes: map[api.VolumeID]protocol.Volume{}}
	var group []core.Record
	for _, record := range records {
		if !next.take(record) {
			group = append(group, record)
		}
	}
	data, sequence, err := appendGroup(appendHeader(nil, next.generation), next.generation, 0, group)
	if err != nil {
		return d.fail(err)
	}
	if err := d.writeIdentity(next); err != nil {
		return d.fail(err)
	}
	if err := d.replaceLog(data); err != nil {
		return d.fail(err)
	}
	d.sequence = sequence
	d.bloated.Store(false)
	d.refill()
	return nil
}

// Reset begins the next generation. Once the new identity file is written the old log is void. It is removed first,
// because on a full disk the new log needs its room.
func (d *Disk) Reset() error {
	next := identity{generation: d.identity.generation + 1, volumes: map[api.VolumeID]protocol.Volume{}}
	if err := d.writeIdentity(next); err != nil {
		return d.fail(err)
	}
	if err := d.Close(); err != nil {
		return d.fail(err)
	}
	if err := os.Remove(d.path(logFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.fail(err)
	}
	d.size, d.room, d.base, d.sequence, d.torn = 0, 0, 0, 0, false
	if err := d.newLog(); err != nil {
		return d.fail(err)
	}
	d.refill()
	return nil
}

// writeIdentity replaces the identity file so that a crash of the machine leaves either the old or the new one. The new
// identity takes effect once it is written.
func (d *Disk) writeIdentity(next identity) error {
	next.logBegun = d.log != nil && next.generation == d.identity.generation
	payload, err := encodeIdentity(next)
	if err != nil {
		return err
	}
	data := binary.LittleEndian.AppendUint32([]byte(identityMagic), crc32.Checksum(payload, castagnoli))
	data = append(data, payload...)
	if !bytes.Equal(data, d.known) { // a compaction changes nothing here
		err = d.replaceIdentity(data)
		if datafolder.IsDiskFull(err) && d.giveUpReserve() {
			err = d.replaceIdentity(data)
		}
	}
	if datafolder.IsDiskFull(err) {
		d.full.Store(true)
		return ErrNoRoom
	}
	if err == nil {
		d.identity, d.known = next, data
	}
	return err
}

// replaceIdentity writes into the spare file, which has its blocks already, and exchanges the two files. So a full disk
// can't keep an agent from obeying its leader's next term.
func (d *Disk) replaceIdentity(data []byte) error {
	spare, path := d.path(spareFile), d.path(identityFile)
	file, err := os.OpenFile(spare, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = d.system.write(file, data, 0)
	if err == nil {
		err = d.system.truncate(file, int64(len(data)))
	}
	if err == nil {
		err = d.system.sync(file)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if d.system.exchange(spare, path) != nil { // there is no identity file yet, or the file system can't exchange files
		if err := os.Rename(spare, path); err != nil {
			return err
		}
	}
	if err := d.syncFolder(); err != nil {
		return err
	}
	d.makeSpare(max(spareBytes, 2*int64(len(data))))
	return nil
}

// makeSpare allocates the blocks of the next identity. If there is no room for it, it is written when there is.
func (d *Disk) makeSpare(bytes int64) {
	file, err := os.OpenFile(d.path(spareFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	_ = errors.Join(d.system.allocate(file, bytes), file.Close()) // if this failed, the next write reports it
}

func (d *Disk) syncFolder() error {
	dir, err := os.Open(d.config.Folder)
	if err != nil {
		return err
	}
	return errors.Join(d.system.sync(dir), dir.Close())
}

// Bloated reports whether a compaction would pay. A full disk has no room for two logs.
func (d *Disk) Bloated() bool { return d.bloated.Load() && !d.full.Load() }

// Full reports whether the room ahead is in use, or the disk has no room for others. It first tries to allocate the room
// ahead again.
func (d *Disk) Full() bool {
	d.refill()
	return d.full.Load()
}

// Close closes the log.
func (d *Disk) Close() error {
	if d.log == nil {
		return nil
	}
	err := d.log.Close()
	d.log = nil
	return err
}
