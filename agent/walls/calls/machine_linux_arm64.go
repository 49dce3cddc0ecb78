package calls

import "golang.org/x/sys/unix"

// machine is the number by which a filter knows this kind of machine.
const machine = unix.AUDIT_ARCH_AARCH64

// numbersEnd is higher than the number of any system call.
const numbersEnd = 1<<32 - 1

// deniedHere are denied calls that not all kinds of machine have.
var deniedHere = []call{{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD}}
