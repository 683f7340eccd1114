#include "exec/checkpoint/checkpoint_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <set>
#include <string_view>
#include <system_error>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/checkpoint_names.h"
#include "exec/checkpoint/checkpoint_record.h"
#include "shared/error.h"
#include "shared/path_kind.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr const char* kLock = "steps.lock";

std::string name_of(std::int64_t step) { return fmt::format("{}{}", kPrefix, step); }

struct StepName {
  std::int64_t step = 0;
  std::string suffix;  // of what a save makes beside its folder; empty: the folder itself
};

/// Nothing if it is no name of a step as name_of writes it, with or without a suffix.
std::optional<StepName> parse_name(std::string_view name) {
  StepName parsed;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, parsed.step);
  parsed.suffix.assign(stop, end);
  if (error != std::errc() || parsed.step < 0 || name != name_of(parsed.step) + parsed.suffix) return std::nullopt;
  for (const char* suffix : {"", ".partial", ".new", ".previous", ".lock"})
    if (parsed.suffix == suffix) return parsed;
  return std::nullopt;
}

using Steps = std::set<std::int64_t, std::greater<>>;

/// Those of which something with a suffix that `accept` takes is in the folder, the newest first.
template <typename Accept>
Steps steps_in(const fs::path& folder, const Accept& accept) {
  Steps steps;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const auto name = parse_name(at->path().filename().string()); name && accept(name->suffix))
      steps.insert(name->step);
  return steps;
}

}  // namespace

std::optional<FoundCheckpoint> newest_checkpoint(const fs::path& folder, std::vector<std::string>& passed_over) {
  const auto may_be_whole = [](const std::string& suffix) { return suffix.empty() || suffix == ".new"; };
  for (const std::int64_t step : steps_in(folder, may_be_whole)) {
    const fs::path given = folder / name_of(step);
    try {
      return FoundCheckpoint{given, open_checkpoint(given)->step()};
    } catch (const OtherVersion&) {
      throw;  // whole; to begin again beside it would lose a training
    } catch (const InputError& error) {
      passed_over.push_back(fmt::format("{} is not whole and is passed over: {}", given.string(), error.what()));
    }
  }
  return std::nullopt;
}

CheckpointSeries::CheckpointSeries(const fs::path& folder, int keep, FileCalls& calls)
    : folder_(folder), keep_(keep), calls_(calls) {
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("{}: cannot be saved to: {}", folder_.string(), why));
  };
  std::error_code error;
  if (is_there(folder_ / kRecordFile))
    refuse("it is itself a checkpoint, and [checkpoint] every puts one for each step into a folder; name another");
  if (!fs::is_directory(folder_, error)) {
    made_ = calls_.mkdir(folder_.c_str(), 0777) == 0;
    if (!made_) refuse(fmt::format("no folder can be made: {}", std::generic_category().message(errno)));
  }
  try {
    lock_.emplace(folder_ / kLock, folder_, calls_);
    take_up_rests();
  } catch (...) {
    lock_.reset();
    if (made_) calls_.rmdir(folder_.c_str());
    throw;
  }
}

CheckpointSeries::~CheckpointSeries() {
  lock_.reset();
  if (made_) calls_.rmdir(folder_.c_str());  // does nothing to a folder that has something in it
}

fs::path CheckpointSeries::folder_of(std::int64_t step) const { return folder_ / name_of(step); }

void CheckpointSeries::take_up_rests() {
  for (const std::int64_t step : steps_in(folder_, [](const std::string& suffix) { return !suffix.empty(); })) {
    const auto taken_up = target(step);
    notes_.insert(notes_.end(), taken_up->notes().begin(), taken_up->notes().end());
  }
}

void CheckpointSeries::require_none_after(std::int64_t step) const {
  std::vector<std::string> ignored;
  const std::optional<FoundCheckpoint> newest = newest_checkpoint(folder_, ignored);
  if (!newest || newest->step <= step) return;
  throw InputError(
      fmt::format("{}: cannot be saved to: it holds a checkpoint of step {}, and this run begins after "
                  "step {}; --resume auto goes on from it, or name another folder",
                  folder_.string(), newest->step, step));
}

std::unique_ptr<SaveTarget> CheckpointSeries::target(std::int64_t step) const {
  return std::make_unique<SaveTarget>(folder_of(step), calls_);
}

void CheckpointSeries::remove_old(std::int64_t newest) const noexcept {
  try {
    int whole = 0;
    for (const std::int64_t step : steps_in(folder_, [](const std::string& suffix) { return suffix.empty(); })) {
      const fs::path folder = folder_of(step);
      if (step > newest || (!record_checksum_in(folder).empty() && ++whole <= keep_)) continue;
      remove_checkpoint(folder, calls_);
    }
  } catch (const std::exception&) {
    return;  // no memory for a path
  }
}

}  // namespace penstock::exec
