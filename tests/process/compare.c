/* SPDX-License-Identifier: MIT
 * A program to be compared. Arguments: what to do. */
#define _GNU_SOURCE
#include "tests/process/driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct driver cu;

static void churn(int pairs) {
  for (int i = 0; i < pairs; ++i) {
    device_address out = 0;
    MUST(cu.cuMemAlloc_v2(&out, 1 << 20));
    MUST(cu.cuMemFree_v2(out));
  }
}

static void churn_on_a_stream(int pairs) {
  void* stream = NULL;
  MUST(cu.cuStreamCreate(&stream, 1));
  for (int i = 0; i < pairs; ++i) {
    device_address out = 0;
    MUST(cu.cuMemAllocAsync(&out, 1 << 20, stream));
    MUST(cu.cuMemFreeAsync(out, stream));
  }
}

static void hold(int mebibytes) {
  const struct timespec time = {0, 150000000};
  device_address out = 0;
  MUST(cu.cuMemAlloc_v2(&out, (size_t)mebibytes << 20));
  nanosleep(&time, NULL);
  MUST(cu.cuMemFree_v2(out));
}

/* A line in a file: whether custash is there, and the process. */
static void note(const char* path) {
  FILE* file = fopen(path, "a");
  if (file == NULL) exit(3);
  fprintf(file, "%s %d\n", served() < 0 ? "without" : "with", getpid());
  fclose(file);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const char* argument = argc > 2 ? argv[2] : "0";
  start_driver(&cu);
  const int is_with = served() >= 0;
  printf("begin\n");
  if (strcmp(what, "churn") == 0) churn(atoi(argument));
  if (strcmp(what, "async") == 0) churn_on_a_stream(atoi(argument));
  if (strcmp(what, "hold") == 0) hold(atoi(argument));
  if (strcmp(what, "note") == 0) note(argument);
  if (strcmp(what, "says") == 0) printf("custash: %s\n", is_with ? "yes" : "no");
  if (strcmp(what, "process") == 0) printf("process %d\n", getpid());
  if (strcmp(what, "number") == 0)
    printf("time: 5 ms\ntime: %s ms\n", is_with && argc > 3 ? argv[3] : argument);
  if (strcmp(what, "status") == 0 && is_with) {
    fprintf(stderr, "it failed \033[31m\n");
    return 3;
  }
  if (strcmp(what, "fail") == 0) return 4;
  if (strcmp(what, "crash") == 0) raise(SIGSEGV);
  if (strcmp(what, "_exit") == 0) churn(1), fflush(stdout), _exit(0);
  if (strcmp(what, "fork") == 0 || strcmp(what, "hold_two") == 0) {
    const pid_t child = fork();
    if (child == 0)
      execl(argv[0],
            argv[0],
            strcmp(what, "fork") == 0 ? "churn" : "hold",
            argument,
            (char*)NULL);
    strcmp(what, "fork") == 0 ? churn(atoi(argument)) : hold(atoi(argument));
    waitpid(child, NULL, 0);
  }
  /* Sleeps at its Nth start, with a child: both are in the file. */
  if (strcmp(what, "sleep") == 0) {
    char line[64];
    int starts = 0;
    FILE* file = NULL;
    note(argument);
    file = fopen(argument, "r");
    while (fgets(line, sizeof line, file) != NULL)
      ++starts;
    fclose(file);
    if (starts == atoi(argv[3])) {
      if (fork() == 0) note(argument);
      sleep(60);
    }
  }
  return 0;
}
