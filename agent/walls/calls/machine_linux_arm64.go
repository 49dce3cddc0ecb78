package calls

import "golang.org/x/sys/unix"

// machine is this kind of machine, to a filter.
const machine = unix.AUDIT_ARCH_AARCH64

// numbersEnd is above all calls.
const numbersEnd = 1<<32 - 1

// deniedHere are calls that other machines lack.
var deniedHere = []call{{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD}}
