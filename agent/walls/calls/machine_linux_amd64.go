package calls

import "golang.org/x/sys/unix"

// machine is this kind of machine, to a filter.
const machine = unix.AUDIT_ARCH_X86_64

// numbersEnd is where calls of programs of x32 begin, which have pointers of 32 bits.
const numbersEnd = 0x40000000

// deniedHere are calls that other machines lack.
var deniedHere = []call{
	{"iopl", unix.SYS_IOPL},
	{"ioperm", unix.SYS_IOPERM},
	{"uselib", unix.SYS_USELIB},
	{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD},
}
