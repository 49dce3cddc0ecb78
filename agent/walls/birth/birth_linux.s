#include "textflag.h"

// func Vfork(trap, a1, a2, a3 uintptr) (r1 uintptr, err syscall.Errno)
TEXT ·Vfork(SB),NOSPLIT|NOFRAME,$0-48
	JMP syscall·rawVforkSyscall(SB)
