// SPDX-License-Identifier: MIT
#include "tools/bandwidth/command.hpp"

namespace custash::bandwidth {

const char* const kHelp =
    "Separate the items of a list with commas. The clock of a process starts when its CUDA\n"
    "context exists, and all processes begin each copy together. Medians leave out the\n"
    "first round of each cell; the time of its allocation is in a column of its own (1st\n"
    "alloc). GB are 10^9 bytes. Under `custash run`, the command releases cached pinned\n"
    "memory before each cold cell.\n"
    "\n"
    "Examples:\n"
    "  custash bandwidth --sizes 1m,1g --processes 1,4 --plot bare.svg\n"
    "  custash run -- custash bandwidth --sizes 1m,1g --memory pinned\n"
    "  custash bandwidth --mistakes\n"
    "\n"
    "Exit status: 0; 1 if it cannot measure: no driver, no device, too little memory; 125\n"
    "for a wrong option.\n";

}  // namespace custash::bandwidth
