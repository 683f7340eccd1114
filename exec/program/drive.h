// What a run keeps on NVMe: where, and whether there is room for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "exec/store/block_store.h"
#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

/// What a store in the folders of machine.nvme_path could have, which leaves what else is written on their file systems;
/// 0 without any. Throws InputError for a folder in which no store can be.
std::int64_t drive_room(const Scenario& scenario, std::span<const WrittenBeside> beside);

/// Throws InputError if the schedule (of `scenario`'s policy, or read from `file`) keeps something on NVMe and no folder
/// on it is named.
void require_drive_path(const Schedule& schedule, const Scenario& scenario, const std::filesystem::path& file);

/// A store for what the schedule keeps on NVMe, nullptr if nothing is. `from`: what its states will begin as, for whoever
/// finds it after a crash; `resumed`: a checkpoint. Says on standard error what it found there. Throws as StoreFiles
/// does.
std::unique_ptr<BlockStore> open_drive(const Schedule& schedule, const Scenario& scenario, const std::string& from,
                                       bool resumed);

}  // namespace penstock::exec
