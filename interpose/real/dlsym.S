// SPDX-License-Identifier: MIT
// The dlsym that programs and their libraries call. Its second name is for --wrap=dlsym: libcustash.a may be part of
// a library that the loader searches after libc. glibc takes the return address on the stack for the caller
// (RTLD_NEXT, RTLD_DEFAULT, namespaces), so what is not ours must be jumped to, not called: assembly, because no
// compiler promises a tail call.
#if defined(__x86_64__)

        .text
        .globl  dlsym
        .type   dlsym, @function
        .globl  __wrap_dlsym
        .hidden __wrap_dlsym
        .p2align 4
__wrap_dlsym:
dlsym:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    custash_resolve
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rax, %rax
        jz      1f
        ret
1:      movq    custash_real_dlsym(%rip), %rax
        jmp     *%rax
        .cfi_endproc
        .size   dlsym, . - dlsym
        .hidden custash_resolve
        .hidden custash_real_dlsym

#elif defined(__aarch64__)

        .text
        .globl  dlsym
        .type   dlsym, %function
        .globl  __wrap_dlsym
        .hidden __wrap_dlsym
        .p2align 4
__wrap_dlsym:
dlsym:
        .cfi_startproc
        hint    #34
        stp     x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset 29, -32
        .cfi_offset 30, -24
        stp     x0, x1, [sp, #16]
        mov     x29, sp
        bl      custash_resolve
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_restore 29
        .cfi_restore 30
        .cfi_def_cfa_offset 0
        cbz     x16, 1f
        mov     x0, x16
        ret
1:      adrp    x16, custash_real_dlsym
        ldr     x16, [x16, #:lo12:custash_real_dlsym]
        br      x16
        .cfi_endproc
        .size   dlsym, . - dlsym
        .hidden custash_resolve
        .hidden custash_real_dlsym

#else
#error "dlsym.S knows x86-64 and aarch64"
#endif

        .section .note.GNU-stack, "", %progbits
