package program

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// restless is the program. Between two lives, which is most of the time, its process has no environment to recognize it
// by.
var restless = []byte{
	0x48, 0x8b, 0x7c, 0x24, 0x08, // mov rdi, [rsp+8]: its path
	0x48, 0x8d, 0x74, 0x24, 0x08, // lea rsi, [rsp+8]: its arguments
	0x48, 0x8b, 0x04, 0x24, // mov rax, [rsp]: how many
	0x48, 0x8d, 0x54, 0xc4, 0x10, // lea rdx, [rsp+8*rax+16]: its environment
	0xb8, 59, 0, 0, 0, // mov eax, execve
	0x0f, 0x05, // syscall
	0xeb, 0xe4, // again
}

// Restless writes a program that only executes itself again and again, and returns its path. Signals that it is started
// with as ignored stay ignored. The test is skipped on a machine that can't run it.
func Restless(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the program is of another machine")
	}
	const at, head = 0x400000, 64 + 56
	size := uint64(head + len(restless))
	var file bytes.Buffer
	for _, part := range []any{ // as in elf(5): one segment, which holds the whole file
		[]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		[]uint16{2, 62}, uint32(1), []uint64{at + head, 64, 0}, uint32(0), []uint16{64, 56, 1, 0, 0, 0},
		[]uint32{1, 5}, []uint64{0, at, at, size, size, 0x1000}, restless,
	} {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "restless")
	if err := os.WriteFile(path, file.Bytes(), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
