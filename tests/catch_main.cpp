// SPDX-License-Identifier: MIT
// Catch2's main, where the system has none to link for the processor that is built for.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
