// SPDX-License-Identifier: MIT
#include "tools/bandwidth/command.hpp"

namespace custash::bandwidth {

const char* const kHelp =
    "A list is written with commas. Each process is timed only when its context is there, and "
    "all "
    "of\n"
    "them begin each copy together. The first round of each cell is in no median; what its "
    "allocation\n"
    "cost stands apart (1st alloc). GB are 10^9 bytes. Under `custash run` the pinned memory "
    "that custash\n"
    "holds is given back before each cold cell.\n"
    "\n"
    "Examples:\n"
    "  custash bandwidth --sizes 1m,1g --processes 1,4 --plot bare.svg\n"
    "  custash run -- custash bandwidth --sizes 1m,1g --memory pinned\n"
    "  custash bandwidth --mistakes\n"
    "\n"
    "Exit status: 1 when it could not be measured: no driver, no device, too little memory; "
    "125 "
    "when\n"
    "an option is wrong.\n";

}  // namespace custash::bandwidth
