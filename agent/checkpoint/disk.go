package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
)

// Config is where a Disk is and how it behaves. Zero fields mean the defaults.
type Config struct {
	// Folder is the agent's own; it must exist. The user holds its lock.
	Folder string
	// BootID is the machine's present one. After another one the machine may have
	// crashed: a damaged log is then cut where the damage begins, because nothing that
	// it tells of runs any more.
	BootID string
	// ReserveBytes is kept for the statuses and kills of what runs (R14). Default 4 MiB.
	ReserveBytes int64
	// BloatBytes is the least size of a log that is worth a compaction. Default 16 MiB.
	BloatBytes int64
}

// Disk is a store in a folder: the files identity, checkpoint.log and reserve.
type Disk struct {
	config   Config
	identity identity
	known    []byte // what the file identity holds, once written
	log      *os.File
	size     int64 // of the log, up to its last whole record
	base     int64 // of the log after its last compaction
	sequence uint64
	buffer   []byte
	repaired string
	full     atomic.Bool
	bloated  atomic.Bool
	// write is (*os.File).Write, but in tests of full disks.
	write func(file *os.File, data []byte) (int, error)
}

const (
	identityFile  = "identity"
	logFile       = "checkpoint.log"
	reserveFile   = "reserve"
	identityMagic = "TNDRAID1"
	bufferKept    = 1 << 20 // a larger buffer is given back after its use
)

// NewDisk makes the store of a folder.
func NewDisk(config Config) *Disk {
	if config.ReserveBytes == 0 {
		config.ReserveBytes = 4 << 20
	}
	if config.BloatBytes == 0 {
		config.BloatBytes = 16 << 20
	}
	return &Disk{
		config:   config,
		identity: identity{generation: 1, volumes: map[api.VolumeID]api.Resource{}},
		write:    (*os.File).Write,
	}
}

// Repaired says in words what Load has cut off or left aside, "" if nothing.
func (d *Disk) Repaired() string { return d.repaired }

func (d *Disk) path(name string) string { return filepath.Join(d.config.Folder, name) }

func (d *Disk) fail(err error) error {
	return api.E("checkpoint", api.Internal, d.config.Folder, err)
}

// Load reads the identity and the log, cuts off a torn tail, and makes the reserve.
func (d *Disk) Load() ([]core.Record, error) {
	if err := d.Close(); err != nil { // of the life before a Reset
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
	d.full.Store(d.makeReserve() != nil)
	if !known {
		return nil, nil
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
	d.identity, err = parseIdentity(data)
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

// loadLog reads the log of the identity's generation. One of another generation is
// what a Reset did not come to remove.
func (d *Disk) loadLog(known bool) ([]core.Record, error) {
	data, err := os.ReadFile(d.path(logFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if of, ok := cutHeader(data); ok && of < d.identity.generation {
		return nil, nil
	}
	if !known && len(data) > headerBytes {
		return nil, errors.New("the file identity is gone, but checkpoint.log is there; restore it from a backup, or remove the folder to begin a new agent")
	}
	held, err := parse(data, d.identity.generation)
	if errors.Is(err, errNewer) {
		return nil, fmt.Errorf("the file %s: %w", logFile, err)
	}
	if err != nil {
		if d.identity.BootID == d.config.BootID {
			return nil, fmt.Errorf("%s: %w; tasks of this agent may be running; end them and remove the folder to begin a new agent", logFile, err)
		}
		d.repaired = "the machine was booted again and " + logFile + " was damaged: " + err.Error() + "; it was read up to there"
	} else if held.good < len(data) {
		d.repaired = fmt.Sprintf("a torn tail of %d bytes was cut off", len(data)-held.good)
	}
	return held.records, d.openLog(int64(held.good), held.frames)
}

func (d *Disk) openLog(good int64, frames uint64) error {
	if good < headerBytes {
		return nil // made anew by the first Append
	}
	file, err := os.OpenFile(d.path(logFile), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(good), seekEnd(file)); err != nil {
		return errors.Join(err, file.Close())
	}
	d.log, d.size, d.base, d.sequence = file, good, good, frames
	return nil
}

func seekEnd(file *os.File) error {
	_, err := file.Seek(0, 2)
	return err
}

// Append writes records in their order. Those that stand together in the log are one
// group: read back whole or not at all (R35).
func (d *Disk) Append(records []core.Record) error {
	changed, group := false, []core.Record(nil)
	for _, record := range records {
		if d.identity.take(record) {
			if err := d.writeGroup(group); err != nil {
				return err
			}
			changed, group = true, nil
			continue
		}
		if changed {
			if err := d.writeIdentity(); err != nil {
				return err
			}
			changed = false
		}
		group = append(group, record)
	}
	if changed {
		return d.writeIdentity()
	}
	return d.writeGroup(group)
}

func (d *Disk) writeGroup(group []core.Record) error {
	if len(group) == 0 {
		return nil
	}
	buffer, sequence, err := appendGroup(d.buffer[:0], d.identity.generation, d.sequence, group)
	if err != nil {
		return d.fail(err)
	}
	if d.buffer = buffer; cap(buffer) > bufferKept {
		d.buffer = nil
	}
	if d.log == nil {
		if err := d.newLog(); err != nil {
			return d.fail(err)
		}
	}
	if err := d.roomy(func() error { return d.writeLog(buffer) }); err != nil {
		return d.fail(err)
	}
	d.sequence = sequence
	d.bloated.Store(d.size > d.config.BloatBytes && d.size > 3*d.base)
	return nil
}

// writeLog leaves all of data in the log, or nothing.
func (d *Disk) writeLog(data []byte) error {
	n, err := d.write(d.log, data)
	if err == nil {
		d.size += int64(n)
		return nil
	}
	return errors.Join(err, d.log.Truncate(d.size), seekEnd(d.log))
}

// newLog begins a log beside the old one, if any; nothing of it counts before it is
// in its place.
func (d *Disk) newLog() error {
	return d.roomy(func() error { return d.replaceLog(appendHeader(nil, d.identity.generation)) })
}

func (d *Disk) replaceLog(data []byte) error {
	temporary := d.path(logFile + ".new")
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := d.write(file, data); err != nil {
		return errors.Join(err, file.Close(), os.Remove(temporary))
	}
	if err := os.Rename(temporary, d.path(logFile)); err != nil {
		return errors.Join(err, file.Close())
	}
	if d.log != nil {
		err = d.log.Close()
	}
	d.log, d.size, d.base = file, int64(len(data)), int64(len(data))
	return err
}

// Compact writes a new log and puts it in the place of the old one.
func (d *Disk) Compact(records []core.Record) error {
	next := identity{generation: d.identity.generation, volumes: map[api.VolumeID]api.Resource{}}
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
	d.identity = next
	if err := d.writeIdentity(); err != nil {
		return err
	}
	if err := d.roomy(func() error { return d.replaceLog(data) }); err != nil {
		return d.fail(err)
	}
	d.sequence = sequence
	d.bloated.Store(false)
	return nil
}

// Reset begins the next generation: with the new identity file the old log is void.
func (d *Disk) Reset() error {
	d.identity = identity{generation: d.identity.generation + 1, volumes: map[api.VolumeID]api.Resource{}}
	if err := d.writeIdentity(); err != nil {
		return err
	}
	d.sequence = 0
	return d.newLog()
}

// writeIdentity replaces the identity file so that the machine's crash leaves the old
// one or the new one.
func (d *Disk) writeIdentity() error {
	payload, err := encodeIdentity(d.identity)
	if err != nil {
		return d.fail(err)
	}
	data := binary.LittleEndian.AppendUint32([]byte(identityMagic), crc32.Checksum(payload, castagnoli))
	data = append(data, payload...)
	if bytes.Equal(data, d.known) {
		return nil // a compaction changes nothing here
	}
	if err := d.roomy(func() error { return d.replaceIdentity(data) }); err != nil {
		return d.fail(err)
	}
	d.known = data
	return nil
}

func (d *Disk) replaceIdentity(data []byte) error {
	temporary := d.path(identityFile + ".new")
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = d.write(file, data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, d.path(identityFile)); err != nil {
		return err
	}
	return syncFolder(d.config.Folder)
}

func syncFolder(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// roomy does a write; when the disk has no room for it, it gives up the reserve and
// does it again.
func (d *Disk) roomy(write func() error) error {
	err := write()
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	d.full.Store(true)
	if removed := os.Remove(d.path(reserveFile)); removed != nil {
		return errors.Join(err, removed)
	}
	return write()
}

// Bloated reports whether a compaction would pay.
func (d *Disk) Bloated() bool { return d.bloated.Load() }

// Full reports whether the reserve is in use, after an attempt to make it again.
func (d *Disk) Full() bool {
	if d.full.Load() && d.makeReserve() == nil {
		d.full.Store(false)
	}
	return d.full.Load()
}

// makeReserve makes the reserve file if it is missing and leaves as much room again.
func (d *Disk) makeReserve() error {
	path := d.path(reserveFile)
	if info, err := os.Stat(path); err == nil && info.Size() == d.config.ReserveBytes {
		return nil
	}
	if free, err := freeBytes(d.config.Folder); err == nil && free < 2*d.config.ReserveBytes {
		return syscall.ENOSPC
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	// Written, not just sized: a sparse file reserves nothing.
	_, err = d.write(file, make([]byte, d.config.ReserveBytes))
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func freeBytes(folder string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail * uint64(s.Bsize)), nil
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
