// SPDX-License-Identifier: MIT
// What nearly every unit test of the core includes, compiled once: it was most of their time.
#pragma once

#include "tests/catch.hpp"
#include "tests/unit/bed.hpp"
