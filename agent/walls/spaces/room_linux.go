package spaces

import (
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// room is memory outside Go's heap. A helper has its rooms, but it does not have Go's heap (see lean). So nothing in a
// room may point into Go's memory.
type room struct {
	chunks [][]byte
	used   int // bytes of the last chunk
}

// chunkBytes is the least that a room takes from the kernel at once. It is enough for nearly every life with its steps
// and its program.
const chunkBytes = 64 << 10

// close gives the memory back. Nothing that take returned may be used any more.
func (r *room) close() {
	for _, chunk := range r.chunks {
		_ = unix.Munmap(chunk)
	}
}

// take returns room for count values, all of them zero.
func take[T any](r *room, count int) ([]T, error) {
	const alignment = 8
	bytes := (count*int(unsafe.Sizeof(*new(T))) + alignment - 1) &^ (alignment - 1)
	if last := len(r.chunks) - 1; last < 0 || len(r.chunks[last])-r.used < bytes {
		chunk, err := unix.Mmap(-1, 0, max(bytes, chunkBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return nil, os.NewSyscallError("mmap", err)
		}
		r.chunks, r.used = append(r.chunks, chunk), 0
	}
	free := r.chunks[len(r.chunks)-1][r.used:]
	r.used += bytes
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(free))), count), nil
}

// keep copies values into the room.
func keep[T any](r *room, values []T) ([]T, error) {
	kept, err := take[T](r, len(values))
	copy(kept, values)
	return kept, err
}

// keepText copies a text into the room, and ends it with a zero byte, as the kernel reads texts. The text itself must
// have no zero byte.
func (r *room) keepText(text string) (*byte, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, syscall.EINVAL // as package syscall says for such texts
	}
	kept, err := take[byte](r, len(text)+1)
	copy(kept, text)
	return unsafe.SliceData(kept), err
}

// keepTexts copies several texts into the room, and returns a list of them that ends with nil, as the kernel reads
// lists.
func (r *room) keepTexts(texts []string) ([]*byte, error) {
	kept, err := take[*byte](r, len(texts)+1)
	for i := 0; err == nil && i < len(texts); i++ {
		kept[i], err = r.keepText(texts[i])
	}
	return kept, err
}

// keepCall copies a step into the room, in the form in which the helper makes the system call.
func (r *room) keepCall(s *step) (call, error) {
	made := s.call
	for i, point := range s.points {
		if point == nil {
			continue
		}
		kept, err := keep(r, point)
		if err != nil {
			return made, err
		}
		made.arguments[i] = uintptr(unsafe.Pointer(unsafe.SliceData(kept)))
	}
	if s.filters != nil {
		filters, err := keep(r, s.filters)
		if err != nil {
			return made, err
		}
		program, err := keep(r, []unix.SockFprog{{Len: uint16(len(filters)), Filter: unsafe.SliceData(filters)}})
		if err != nil {
			return made, err
		}
		made.arguments[2] = uintptr(unsafe.Pointer(unsafe.SliceData(program)))
	}
	return made, nil
}
