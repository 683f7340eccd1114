#include "sim/planner/drive_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/drive_alignment.h"
#include "shared/error.h"
#include "shared/ir/memory_text.h"
#include "shared/units.h"
#include "sim/planner/candidate_text.h"

namespace penstock::sim {
namespace {

constexpr double kSecondsPerDay = 86400;
constexpr double kSoonDays = 180;

/// Drives are rated in them.
std::string terabytes(double bytes) {
  const double count = bytes * 1e-12;
  return count < 1000 ? fmt::format("{:.3g} TB", count) : fmt::format("{:.0f} TB", count);
}

/// "moments 33.80 MiB, master 8.45 MiB"
std::string on_drive(const Schedule& schedule) {
  for (const TierMemory& tier : schedule_memory(schedule))
    if (tier.tier.kind == TierKind::nvme) return contents_text(tier, Unused::left_out);
  return "";
}

/// Changes the policy to the same without a drive. Returns the keys that did it.
std::string leave_drive(PolicyParameters& policy) {
  std::string keys;
  const auto change = [&keys](auto& value, auto other, std::string_view key) {
    if (value == other) return;
    value = other;
    keys += fmt::format("{}policy.{}", keys.empty() ? "" : ", ", key);
  };
  change(policy.nvme_states, 0, "nvme_states = 0");
  change(policy.nvme_weights, 0, "nvme_weights = 0");
  const auto change_tier = [&](TierKind& tier, std::string_view key) {
    if (tier == TierKind::nvme) change(tier, TierKind::dram, key);
  };
  change_tier(policy.gradients, "gradients = \"dram\"");
  change_tier(policy.activations, "activations = \"dram\"");
  change_tier(policy.first_activations, "first_activations = \"dram\"");
  change_tier(policy.gradient_sums, "gradient_sums = \"dram\"");
  for (LayerKeep& kept : policy.keep_layers) change_tier(kept.activations, "keep_layers without nvme");
  return keys;
}

/// What becomes of the plan by those keys.
std::string without_drive(Scenario scenario) {
  const std::string keys = leave_drive(scenario.policy);
  std::string outcome;
  try {
    const PolicyInput input = scenario.policy_input();
    const ArenaBytes arenas = arena_bytes(input);
    outcome = fits(arenas, input) ? "it fits" : shortage_text(arenas, scenario.machine);
  } catch (const InputError& error) {
    outcome = error.what();
  }
  return fmt::format("in DRAM instead ({}) {}", keys, outcome);
}

}  // namespace

DriveUse drive_use(const Schedule& schedule) {
  DriveUse use;
  use.kept = on_drive(schedule);
  for (const Op& op : schedule.ops) {
    const LaneKind kind = schedule.lanes[static_cast<std::size_t>(op.lane)].kind;
    if (kind == LaneKind::nvme_read) use.read_bytes += padded_for_drive(op.reads.front().bytes);
    if (kind == LaneKind::nvme_write) use.written_bytes += padded_for_drive(op.writes.front().bytes);
  }
  return use;
}

double written_bytes_per_day(const DriveUse& use, double step_seconds) {
  return step_seconds > 0 ? static_cast<double>(use.written_bytes) / step_seconds * kSecondsPerDay : 0;
}

double endurance_days(const DriveUse& use, const Nvme& drive, double step_seconds) {
  const double per_day = written_bytes_per_day(use, step_seconds);
  return per_day > 0 ? drive.endurance_bytes / per_day : 0;
}

bool wears_out_soon(const DriveUse& use, const Nvme& drive, double step_seconds) {
  const double days = endurance_days(use, drive, step_seconds);
  return days > 0 && days < kSoonDays;
}

std::string drive_text(const Schedule& schedule, const Nvme& drive, double step_seconds) {
  const DriveUse use = drive_use(schedule);
  if (use.kept.empty()) return "";
  std::string text = fmt::format("NVMe: keeps {}; a step reads {} and writes {}", use.kept,
                                 format_bytes(static_cast<double>(use.read_bytes)),
                                 format_bytes(static_cast<double>(use.written_bytes)));
  if (const double day = written_bytes_per_day(use, step_seconds); day > 0)
    text += fmt::format(": {} a day", terabytes(day));
  if (const double days = endurance_days(use, drive, step_seconds); days > 0) {
    text += fmt::format(", {:.3g} days until the rated {}", days, terabytes(drive.endurance_bytes));
    if (wears_out_soon(use, drive, step_seconds))
      text += fmt::format(
          "\nWEAR: {:.3g} days of training use up the drive's rated life; more host memory (machine.dram) "
          "or more sequences per step spare it",
          days);
  }
  return text;
}

void put_drive(nlohmann::ordered_json& json, const Schedule& schedule, const Nvme& drive, double step_seconds) {
  const DriveUse use = drive_use(schedule);
  if (use.kept.empty()) return;
  nlohmann::ordered_json& nvme = json["nvme"] = {
      {"kept", use.kept}, {"read_bytes_per_step", use.read_bytes}, {"written_bytes_per_step", use.written_bytes}};
  if (step_seconds <= 0) return;
  nvme["written_bytes_per_day"] = written_bytes_per_day(use, step_seconds);
  if (drive.endurance_bytes <= 0) return;
  nvme["endurance_bytes"] = drive.endurance_bytes;
  if (const double days = endurance_days(use, drive, step_seconds); days > 0) nvme["endurance_days"] = days;
}

std::string needs_drive(const Schedule& schedule, const Scenario& scenario, bool is_from_file) {
  return fmt::format(
      "keeps {} on NVMe: name a folder on the drive, as machine.nvme_path = \"/mnt/drive\"; {}", on_drive(schedule),
      is_from_file ? std::string("or plan it without a drive, with machine.nvme = \"0 B\"") : without_drive(scenario));
}

}  // namespace penstock::sim
