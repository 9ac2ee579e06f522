// SPDX-License-Identifier: MIT
// GuardOwners: whose an address is by now. The book knows what was allocated and freed; the
// core and the driver know what became of it. State: how to ask the driver.
#pragma once

#include "allocator/base/config.hpp"
#include "interpose/check/guard_book.hpp"

#include <string>

namespace custash::guards {

// `symbol` finds functions of the driver.
void begin_owners(const Config& config, void* (*symbol)(const char* name));

// What copies, memsets and frees do is checked without guards, too, if the option means every
// block of this size.
enum class Watch { No, WithoutGuards, WithGuards };
Watch watch_of(observe::MemoryKind memory, Address address, Bytes bytes);

// Why the block there got no guards; empty: there was no room.
std::string why_unguarded(const Config& config, Address address);

// A live block is still as the book knows it.
bool still_lives(const Block& block);

// The address of a freed block has no other owner since.
bool is_freed(Address address, const Block& block);

// It lies beyond a block in use, and in no other memory.
bool is_outside(Address address, const Block& block);

}  // namespace custash::guards
