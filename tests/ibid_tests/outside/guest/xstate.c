/* Preloaded into user-mode Linux 6.1: lets it run on processors with AMX.
 *
 * The kernel takes and gives a process's extended registers (ptrace, NT_X86_XSTATE) whole or not at all. User-mode Linux
 * keeps them in a buffer of the size that AVX-512 needs; AMX made the whole larger, and every restore fails with EFAULT.
 * Nothing in the guest uses AMX: the part that fits the buffer is handed on, and the rest stays as the processor has it.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif

static char whole[1 << 16];

long ptrace(enum __ptrace_request request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    pid_t pid = va_arg(arguments, pid_t);
    unsigned long address = va_arg(arguments, unsigned long);
    void *data = va_arg(arguments, void *);
    va_end(arguments);

    int get = request == PTRACE_GETREGSET, set = request == PTRACE_SETREGSET;
    if ((!get && !set) || address != NT_X86_XSTATE) {
        /* The C library's own wrapper returns what PEEK requests read; so does this. */
        long word, is_peek = request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER;
        long done = syscall(SYS_ptrace, request, pid, address, is_peek ? (void *)&word : data);
        return is_peek && done == 0 ? word : done;
    }
    struct iovec *part = data, all = {whole, sizeof whole};
    if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, address, &all) != 0)
        return -1;
    size_t bytes = part->iov_len < all.iov_len ? part->iov_len : all.iov_len;
    if (get) {
        memcpy(part->iov_base, whole, bytes);
        part->iov_len = bytes;
        return 0;
    }
    memcpy(whole, part->iov_base, bytes);
    return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, address, &all);
}
