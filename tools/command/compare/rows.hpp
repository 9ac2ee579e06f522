// SPDX-License-Identifier: MIT
// The rows of the report's table, and what they say. Pure.
#pragma once

#include "tools/command/compare/report.hpp"

namespace custash::compare {

enum class MemorySource { None, Processes, Devices };

// The same for all runs, or they could not be compared.
MemorySource memory_source(const std::vector<Round>& rounds);

// Of at least one round.
std::vector<Row> rows_of(const CommandOptions& options, const std::vector<Round>& rounds);

// Null where there is none.
const Row* memory_row(const std::vector<Row>& rows);

// Whether custash is better, and by how much, in a sentence.
std::string verdict_of(const Row& row,
                       bool higher_is_better,
                       const std::string& with = "with custash");

// Of peak memory: a sentence where it clearly differs by 1 % or more, else empty.
std::string memory_verdict(const Row& row, const std::string& with = "with custash");

// Whether it is clearly better by 1 % or more.
bool is_gain(const Row& row, bool higher_is_better);

// That memory of other programs came or went between the runs; empty where it did not.
std::string idle_warning(const std::vector<Round>& rounds);

}  // namespace custash::compare
