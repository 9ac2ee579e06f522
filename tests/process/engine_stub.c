/* SPDX-License-Identifier: MIT
 * Stands for libnvcuvid.so.1, libnvidia-encode.so.1 and libnvoptix.so.1: the functions by which
 * work of their engines begins. */

int cuvidCreateDecoder(void* decoder, void* parameters) {
  return decoder == parameters ? 1 : 0;
}

int NvEncodeAPICreateInstance(void* functions) {
  return functions == (void*)0 ? 6 : 0;
}

int optixQueryFunctionTable(
    int abi, unsigned count, void* keys, void* values, void* table, unsigned long size) {
  return abi == 87 && count == 1 && keys != values && table != (void*)0 && size == 8 ? 0 : 7801;
}
