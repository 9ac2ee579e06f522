/* SPDX-License-Identifier: MIT
 * What stands in for NVIDIA's profiler: NVTX loads it by NVTX_INJECTION64_PATH. It writes each
 * call of NVTX as a line into the file that NVTX_NOTES names. With NVTX_TOOL_ALLOCATES it
 * calls the driver while it starts, as a profiler may. */
#include "tests/process/driver.h"

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int counters;

static void note(const char* format, ...) {
  va_list words;
  va_start(words, format);
  pthread_mutex_lock(&lock);
  FILE* const file = fopen(getenv("NVTX_NOTES"), "a");
  vfprintf(file, format, words);
  fclose(file);
  pthread_mutex_unlock(&lock);
  va_end(words);
}

static nvtxDomainHandle_t domain_create(const char* name) {
  note("domain %s\n", name);
  return (nvtxDomainHandle_t)&counters;
}

static int range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  note("push %s %llu%s\n",
       event->message.ascii,
       (unsigned long long)event->payload.ullValue,
       domain == (nvtxDomainHandle_t)&counters ? "" : " of another domain");
  return 0;
}

static int range_pop(nvtxDomainHandle_t domain) {
  (void)domain;
  note("pop\n");
  return 0;
}

static uint64_t counter_register(nvtxDomainHandle_t domain, const nvtxCounterAttr_t* counter) {
  (void)domain;
  note("counter %d %s\n", ++counters, counter->name);
  return (uint64_t)counters;
}

static void counter_sample(nvtxDomainHandle_t domain, uint64_t counter, int64_t value) {
  (void)domain;
  note("sample %d %lld\n", (int)counter, (long long)value);
}

static void allocate_too(void) {
  struct driver cu;
  device_address out = 0;
  if (getenv("NVTX_TOOL_ALLOCATES") == NULL) return;
  start_driver(&cu);
  MUST(cu.cuMemAlloc_v2(&out, 1 << 20));
  note("allocated\n");
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks* const callbacks = get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned size = 0;
  if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)range_push;
  *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)range_pop;
  allocate_too();
  return 1;
}

int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
  if (module->moduleId != NVTX_EXT_COUNTERS_MODULEID) return 0;
  module->segments[0].functionSlots[NVTX3EXT_CBID_nvtxCounterRegister] =
      (intptr_t)counter_register;
  module->segments[0].functionSlots[NVTX3EXT_CBID_nvtxCounterSampleInt64] =
      (intptr_t)counter_sample;
  return 1;
}
