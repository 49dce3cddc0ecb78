#include "textflag.h"

// func vforkCall(trap, a1, a2, a3 uintptr) (r1 uintptr, err syscall.Errno)
TEXT ·vforkCall(SB),NOSPLIT|NOFRAME,$0-48
	JMP syscall·rawVforkSyscall(SB)
