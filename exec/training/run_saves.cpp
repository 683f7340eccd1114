#include "exec/training/run_saves.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "exec/checkpoint/safetensors.h"
#include "exec/runtime/limits.h"
#include "shared/error.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kTried = std::int64_t{64} << 20;  // bytes at most that are written to learn the rate

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string expected_text(double bytes, double rate) {
  return rate > 0 ? fmt::format(", about {}", format_seconds(bytes / rate)) : "";
}

}  // namespace

RunSaves::RunSaves(const std::filesystem::path& folder, const CheckpointOptions& options)
    : folder_(folder), every_(options.every) {
  if (every_ > 0)
    series_ = std::make_unique<CheckpointSeries>(folder, options.keep);
  else
    target_ = std::make_unique<SaveTarget>(folder);
}

const std::vector<std::string>& RunSaves::notes() const { return series_ ? series_->notes() : target_->notes(); }

void RunSaves::require_place(std::int64_t step, std::int64_t steps, std::span<const std::int64_t> file_bytes) const {
  if (target_) return target_->require_room(file_bytes);
  series_->require_none_after(step);
  series_->target(step + steps_to_save(step, steps))->require_room(file_bytes);
}

std::int64_t RunSaves::steps_to_save(std::int64_t step, std::int64_t left) const {
  return every_ == 0 ? left : std::min(left, every_ - step % every_);
}

void RunSaves::set_aside(const Schedule& schedule, const Model& model, std::int64_t room_bytes) {
  snapshot_bytes_ = snapshot_bytes(schedule);
  if (every_ == 0 || snapshot_bytes_ > room_bytes) return;
  try {
    snapshot_ = std::make_unique<StateSnapshot>(schedule, model);
  } catch (const DoesNotFit&) {
    snapshot_.reset();  // the system has less than it said: then training waits for the disk
  }
}

double RunSaves::write_rate(std::int64_t step, std::int64_t steps, std::int64_t file_bytes) const {
  const std::int64_t elements = std::clamp(file_bytes / 8, std::int64_t{1} << 20, kTried) / 4;
  try {
    const auto target = series_->target(step + steps_to_save(step, steps));
    const std::filesystem::path folder = target->begin();
    const Clock::time_point start = Clock::now();
    double seconds = 0;
    try {
      SafetensorsWriter writer(folder / kStatesFile, {{"tried", StoredType::f32, {elements}}}, target->calls());
      const std::vector<float> values(static_cast<std::size_t>(elements), 1.0f);
      writer.append(std::as_bytes(std::span(values)));
      writer.close();
      seconds = seconds_since(start);
    } catch (const std::exception&) {
    }
    target->abandon();
    return seconds > 0 ? static_cast<double>(elements * 4) / seconds : 0;
  } catch (const std::exception&) {
    return 0;  // the save itself will say why
  }
}

std::string RunSaves::expectation(std::int64_t file_bytes, double copy_rate, double write_rate) const {
  const auto files = static_cast<double>(file_bytes), copy = static_cast<double>(snapshot_bytes_);
  const std::string size = format_bytes(files), written = expected_text(files, write_rate);
  if (snapshot_)
    return fmt::format(
        "saves every {} steps: training waits while {} are copied into memory set aside{}, then {} are written beside "
        "it{}\n",
        every_, format_bytes(copy), expected_text(copy, copy_rate), size, written);
  return fmt::format(
      "saves every {} steps: training waits while {} are written{}; memory has no room for a copy of the states, {}\n",
      every_, size, written, format_bytes(copy));
}

std::filesystem::path RunSaves::write(const CheckpointInfo& info, const Training& training, const StateReader& states) {
  if (target_) {
    save_checkpoint(*target_, info, training.schedule(), training.model(), states);
    return folder_;
  }
  save_checkpoint(*series_->target(info.step), info, training.schedule(), training.model(), states);
  series_->remove_old(info.step);
  return series_->folder_of(info.step);
}

void RunSaves::begin(const Training& training, const RunDescription& description) {
  if (begun_) throw std::logic_error("RunSaves::begin: the one before was not finished");
  const std::vector<std::int64_t> bytes = checkpoint_file_bytes(training.schedule().numerics, training.model());
  Begun& begun = begun_.emplace();
  begun.times = {training.steps_done(), std::reduce(bytes.begin(), bytes.end()), snapshot_ != nullptr};
  begun.times.waited_seconds = std::exchange(waited_seconds_, 0);
  const CheckpointInfo info{training.steps_done(), description};
  const Clock::time_point start = Clock::now();
  const auto write_all = [this, &begun, info, &training](const StateReader& states) noexcept {
    const Clock::time_point begin = Clock::now();
    try {
      begun.folder = write(info, training, states);
    } catch (...) {
      begun.error = std::current_exception();
    }
    begun.times.write_seconds = seconds_since(begin);
  };
  if (snapshot_) {
    try {
      snapshot_->take(training.memories(), read_memory_limits().cores);
    } catch (...) {
      begun_.reset();
      throw;
    }
    begun.times.stall_seconds = begun.times.waited_seconds + seconds_since(start);
    writer_ = std::jthread([this, write_all] { write_all(snapshot_->states()); });
  } else {
    write_all(training.states());
    begun.times.stall_seconds = seconds_since(start);
  }
}

std::optional<std::int64_t> RunSaves::being_written() const {
  return begun_ ? std::optional(begun_->times.step) : std::nullopt;
}

std::optional<std::filesystem::path> RunSaves::finish() {
  if (!begun_) return std::nullopt;
  const Clock::time_point start = Clock::now();
  if (writer_.joinable()) writer_.join();
  waited_seconds_ = seconds_since(start);
  const Begun begun = *std::exchange(begun_, std::nullopt);
  if (begun.error) std::rethrow_exception(begun.error);
  saved_ = begun.times.step;
  times_.push_back(begun.times);
  return begun.folder;
}

std::optional<std::filesystem::path> RunSaves::save(const Training& training, const RunDescription& description) {
  const std::int64_t step = training.steps_done();
  if (saved_ == step) return std::nullopt;
  const std::filesystem::path folder = write({step, description}, training, training.states());
  saved_ = step;
  return folder;
}

}  // namespace penstock::exec
