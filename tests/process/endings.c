/* SPDX-License-Identifier: MIT
 * A program that allocates and comes to an end in one way or another. Arguments: the way. Three
 * blocks of 4 MiB stay, and 100 rounds allocate and free one of 1 MiB. */
#define _GNU_SOURCE
#include "tests/process/driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct driver cu;

static void* context;

__attribute__((noinline, visibility("default"))) device_address leak_one(void) {
  device_address out = 0;
  MUST(cu.cuMemAlloc_v2(&out, 4 << 20));
  return out;
}

static void work(void) {
  for (int i = 0; i < 2; ++i)
    leak_one();
  for (int i = 0; i < 100; ++i) {
    device_address out = 0;
    MUST(cu.cuMemAlloc_v2(&out, 1 << 20));
    MUST(cu.cuMemFree_v2(out));
  }
  leak_one();
}

static void* churn(void* unused) {
  MUST(cu.cuCtxSetCurrent(context));
  for (;;) {
    device_address out = 0;
    MUST(cu.cuMemAlloc_v2(&out, 4096));
    MUST(cu.cuMemFree_v2(out));
  }
  return unused;
}

static void ready(void) {
  puts("ready");
  fflush(stdout);
}

static void on_signal(int number) {
  (void)number;
  _exit(7);
}

/* Goes on until its standard input ends. */
static void go_on(void) {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0)
    continue;
}

static void say_dispositions(void) {
  const int each[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE};
  for (unsigned i = 0; i < sizeof each / sizeof *each; ++i) {
    struct sigaction now;
    sigaction(each[i], NULL, &now);
    printf("%d%s", now.sa_handler == SIG_IGN, i + 1 < sizeof each / sizeof *each ? " " : "\n");
  }
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, NULL, &blocked);
  for (int i = 1; i < 32; ++i)
    if (sigismember(&blocked, i) == 1) printf("blocked %d\n", i);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  alarm(60);
  if (strcmp(how, "dispositions") == 0) return say_dispositions(), 0;
  if (strcmp(how, "daemon") == 0) {
    int through[2];
    char byte = 0;
    if (pipe(through) != 0) return 1;
    if (fork() != 0) {
      close(through[1]);
      return read(through[0], &byte, 1) == 1 ? 0 : 1;
    }
    setsid();
    context = start_driver(&cu);
    work();
    if (write(through[1], &byte, 1) != 1) return 1;
    go_on();
    return 0;
  }
  if (strcmp(how, "children") == 0) {
    for (int i = 0; i < 2; ++i) {
      if (fork() == 0) {
        context = start_driver(&cu);
        work();
        if (i == 0) raise(SIGKILL);
        return 0;
      }
    }
    while (wait(NULL) > 0)
      continue;
    return 0;
  }
  context = start_driver(&cu);
  work();
  if (strcmp(how, "drop") == 0) return setgid(65534) != 0 || setuid(65534) != 0;
  if (strcmp(how, "status") == 0) return 5;
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "_exit") == 0) _exit(6);
  if (strcmp(how, "crash") == 0) raise(SIGSEGV);
  if (strcmp(how, "kill") == 0) raise(SIGKILL);
  if (strcmp(how, "interrupt") == 0) kill(0, SIGINT);
  if (strcmp(how, "exec") == 0) execl("/bin/sh", "sh", "-c", "exit 4", (char*)NULL);
  if (strcmp(how, "again") == 0) execl(argv[0], argv[0], "_exit", (char*)NULL);
  if (strcmp(how, "memory") == 0) {
    device_address out = 0;
    while (cu.cuMemAlloc_v2(&out, 1 << 30) == 0)
      continue;
    abort();
  }
  if (strcmp(how, "fork") == 0) {
    if (fork() == 0) {
      device_address out = 0;
      cu.cuMemAlloc_v2(&out, 1 << 20);
      exit(0);
    }
    wait(NULL);
  }
  if (strcmp(how, "stop") == 0) {
    ready();
    raise(SIGTSTP);
  }
  if (strcmp(how, "freeze") == 0) {
    ready();
    raise(SIGSTOP);
  }
  if (strcmp(how, "handle") == 0) {
    signal(SIGTERM, on_signal);
    ready();
    pause();
  }
  if (strcmp(how, "count") == 0) {
    /* How often a signal comes. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    ready();
    const struct timespec patience = {0, 500000000};
    int times = sigwaitinfo(&set, NULL) > 0;
    while (sigtimedwait(&set, NULL, &patience) > 0)
      ++times;
    printf("%d\n", times);
  }
  if (strcmp(how, "churn") == 0) {
    pthread_t thread;
    for (int i = 0; i < 2; ++i)
      pthread_create(&thread, NULL, churn, NULL);
    ready();
    pause();
  }
  if (strcmp(how, "wait") == 0) {
    ready();
    pause();
  }
  return 0;
}
