package history

import (
	"errors"
	"os"
)

// joiner writes segments anew without the records that are to go. What is left of several goes into one file, which
// takes their place by rename; what a crash leaves of them behind it is removed by load.
type joiner struct {
	ring    *ring
	drops   map[key]int64 // how many bytes of a share are still to go
	inputs  []*segment
	buffer  []byte
	holds   contents
	changed bool // something of the inputs was dropped
}

// take goes on with the next sealed segment.
func (j *joiner) take(s *segment) error {
	touched, whole := false, true
	for share, bytes := range s.summary.Shares { // order: irrelevant because each is judged alone
		touched = touched || j.drops[share] > 0
		whole = whole && j.drops[share] >= bytes
	}
	switch {
	case whole:
		for share, bytes := range s.summary.Shares { // order: irrelevant because each is changed alone
			j.spend(share, bytes)
		}
		if err := j.end(); err != nil {
			return err
		}
		return j.ring.replace([]*segment{s}, nil)
	case !touched && s.bytes > j.ring.segmentBytes()/2:
		return j.end()
	}
	data, err := os.ReadFile(j.ring.path(s.name))
	if err != nil {
		return err
	}
	if len(j.buffer) == 0 {
		j.buffer = append(j.buffer, magic...)
	}
	j.inputs = append(j.inputs, s)
	_, bad := walk(data, func(_ int, f frame) {
		if j.drops[f.share()] > 0 {
			j.spend(f.share(), int64(len(f)))
			j.changed = true
			return
		}
		if j.holds.read(int64(len(j.buffer)), f) {
			j.buffer = append(j.buffer, f...)
		}
	})
	j.holds.Bad += s.summary.Bad
	if s.summary.Bad == 0 {
		for _, span := range bad {
			j.holds.Bad += int64(span.to - span.from)
		}
	}
	if int64(len(j.buffer)) >= j.ring.segmentBytes() {
		return j.end()
	}
	return nil
}

func (j *joiner) spend(share key, bytes int64) {
	if j.drops[share] -= bytes; j.drops[share] <= 0 {
		delete(j.drops, share)
	}
}

// end writes what the inputs have left, and puts it in their place.
func (j *joiner) end() error {
	inputs, worth := j.inputs, j.changed || len(j.inputs) > 1
	buffer, holds := j.buffer, j.holds
	j.inputs, j.buffer, j.holds, j.changed = nil, nil, contents{}, false
	switch {
	case !worth:
		return nil
	case holds.Records == 0:
		return j.ring.replace(inputs, nil)
	}
	s, err := j.ring.writeWhole(span{inputs[0].numbers.from, inputs[len(inputs)-1].numbers.to}, buffer, &holds)
	if err != nil {
		return err
	}
	return j.ring.replace(inputs, s)
}

// writeWhole writes a sealed segment under its name.
func (r *ring) writeWhole(numbers span, records []byte, holds *contents) (*segment, error) {
	s := &segment{name: nameOf(r.name, numbers), numbers: numbers, summary: holds.summary}
	file, err := os.OpenFile(r.path(s.name+temporary), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if err = r.writeAt(file, records, 0); err == nil {
		if err = r.sealFile(s, file, holds, int64(len(records))); err == nil && s.memory != nil {
			err = errNoRoom
		}
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(r.path(s.name+temporary), r.path(s.name))
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(r.path(s.name+temporary)))
	}
	return s, r.syncFolder()
}
