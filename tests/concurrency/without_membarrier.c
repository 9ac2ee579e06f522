/* SPDX-License-Identifier: MIT
 * without_membarrier all|later PROGRAM ARGUMENTS…: runs a program on a kernel that refuses
 * membarrier, by a filter of system calls: all of it, or (later) everything but the
 * registration, as where a sandbox is set up afterwards. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kSkip = 77 };

static int refuse(int all) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
               all ? 0xffffffff : MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
               1,
               0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof code[0], code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int asks(int command) {
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int all = strcmp(argv[1], "all") == 0;
  if (refuse(all) != 0) {
    printf("no filter of system calls can be set here: %s\n", strerror(errno));
    return kSkip;
  }
  if (asks(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == all ||
      asks(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
    printf("the filter does not refuse what it should\n");
    return 1;
  }
  execv(argv[2], argv + 2);
  return 1;
}
