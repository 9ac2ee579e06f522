// SPDX-License-Identifier: MIT
// Catch2 v2 or v3, whichever the machine has (Debian 12 ships 2.13, Ubuntu 24.04 ships 3).
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
