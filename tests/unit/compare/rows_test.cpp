// SPDX-License-Identifier: MIT
#include "tests/catch.hpp"
