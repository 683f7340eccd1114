// Schedule files: "penstock-schedule/1"; "penstock-schedule/2" where the rows are not windows.
#pragma once

#include <filesystem>
#include <string>

#include "shared/ir/schedule.h"

namespace penstock {

/// Strict: unknown version, unknown field, dangling id, wrong type, absurd number each throw InputError that names
/// the place ("x.json: ops[17].reads[0].buffer: 99, but there are 40 buffers").
Schedule read_schedule(const std::filesystem::path& path);
Schedule parse_schedule(const std::string& text, const std::string& place);

std::string schedule_text(const Schedule& schedule);
/// Whole or not at all: temporary file, fsync, rename.
void write_schedule(const Schedule& schedule, const std::filesystem::path& path);

/// 16 hex digits over everything that decides what runs (names for people left out). Timelines carry it.
std::string schedule_hash(const Schedule& schedule);

}  // namespace penstock
