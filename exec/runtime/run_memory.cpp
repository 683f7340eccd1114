#include "exec/runtime/run_memory.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "exec/store/block_store.h"
#include "shared/kept_memory.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// Stacks, allocator, the schedule and what it is bound to, tables of libraries that loading them writes to (a tiny
/// model's run, linked with CUDA's: 121 MiB).
constexpr std::int64_t kHostProgramBytes = 128 * kMiB;

/// Page tables: 8 bytes per page of 4096 where the system has no huge pages to give.
constexpr double kHostArenaShare = 8.0 / 4096;

/// A thread that loads or saves holds 2^20 elements in fp32 and in bf16.
constexpr std::int64_t kPieceBytes = 6 * kMiB;

/// What a schedule keeps on NVMe at most: states of 14 bytes and a waiting gradient of 4, rounded up.
constexpr std::int64_t kMostOnDrivePerParameter = 20;

/// Of one op in one step: start and end as recorded (16 bytes) and as sorted into a timeline (24); two CUDA events,
/// assumed at 512 bytes each; in a timeline's file and a comparison.
constexpr std::int64_t kTimeBytes = 40, kEventBytes = 1024, kWrittenTimeBytes = 200;
/// Of what may be allocated, and never more than 1 GiB.
constexpr std::int64_t kTimesShare = 64, kMostTimesBytes = 1024 * kMiB;

/// Of a streamed schedule: load, keep, fetch, compute of each pass, leave, update.
constexpr std::int64_t kOpsPerVisit = 12;

std::int64_t most_times_bytes(std::int64_t usable_bytes) {
  return std::clamp(usable_bytes / kTimesShare, 16 * kMiB, kMostTimesBytes);
}

std::int64_t recorded_bytes(bool on_host) { return kTimeBytes + (on_host ? 0 : kEventBytes); }

}  // namespace

std::int64_t BesideArenas::total(std::int64_t arena_bytes) const {
  return program_bytes + kernel_bytes + loading_bytes + times_bytes + drive_bytes +
         static_cast<std::int64_t>(arena_share * static_cast<double>(arena_bytes));
}

std::int64_t BesideArenas::largest_arenas(std::int64_t usable_bytes) const {
  const auto rest = static_cast<double>(usable_bytes - total(0));
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(rest / (1 + arena_share)));
}

std::int64_t host_kernel_bytes(const Model& model, BatchShape micro_batch, const Chunking& chunking) {
  const ModelConfig& c = model.config;
  const std::int64_t tokens = chunk_of(micro_batch, 0).tokens(), length = micro_batch.sequence_length;
  const auto rows_of = [&](std::int64_t chunk) { return chunk == 0 ? tokens : std::min(chunk, tokens); };
  std::int64_t elements = 0;
  for (const Layer& layer : model.layers) elements = std::max(elements, layer.state_elements);
  // fp32 copies: of an op's weights and their gradient, and of what its products read and make.
  // Of experts one at a time, which all tokens may have chosen, and the router's logits.
  const std::int64_t width = std::max(c.intermediate, c.experts.intermediate);
  const std::int64_t mlp = rows_of(chunking.mlp_tokens) * (3 * width + 2 * c.hidden) +
                           (c.experts.count > 0 ? tokens * (2 * c.experts.count + c.hidden) : 0);
  const std::int64_t attention = tokens * (2 * model.qkv_columns() + 2 * c.hidden);
  const std::int64_t head =
      rows_of(chunking.loss_tokens == 0 ? kDefaultLossTokens : chunking.loss_tokens) * (c.vocabulary + c.hidden);
  const std::int64_t keys = length * (4 * c.head_dim + 2 * 64);
  return 4 * (2 * elements + std::max({mlp, attention, head}) + keys) + 16 * kMiB;
}

BesideArenas beside_arenas(const Model& model, const RunShape& shape, std::int64_t usable_bytes) {
  BesideArenas beside;
  beside.program_bytes = shape.on_host ? kHostProgramBytes : kRunBytes;
  if (shape.on_host) beside.kernel_bytes = host_kernel_bytes(model, shape.micro_batch, shape.chunking);
  beside.loading_bytes = (shape.cores + 2) * kPieceBytes;
  const std::int64_t times = kOpsPerVisit * model.layer_count() * shape.micro_batches * shape.steps;
  const std::int64_t each = recorded_bytes(shape.on_host);
  beside.times_bytes =
      std::min(times, most_times_bytes(usable_bytes) / each) * (each + (shape.writes_times ? kWrittenTimeBytes : 0));
  if (shape.drive_bytes > 0)
    beside.drive_bytes = checksum_bytes(std::min(shape.drive_bytes, kMostOnDrivePerParameter * model.parameters)) +
                         (shape.cores + 1) * kPieceBytes;
  beside.arena_share = shape.on_host ? kHostArenaShare : kRunPercent / 100.0;
  return beside;
}

int recorded_steps(const Schedule& schedule, int steps, bool on_host, std::int64_t usable_bytes) {
  const std::int64_t per_step =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(schedule.ops.size()) * recorded_bytes(on_host));
  return static_cast<int>(
      std::min<std::int64_t>(steps, std::max<std::int64_t>(1, most_times_bytes(usable_bytes) / per_step)));
}

void begin_resident_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;  // where that is not allowed the peak is that of the whole process
}

std::int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::int64_t peak = -1, files = 0;  // KiB
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t kib = 0;
    if (!(words >> key >> kib)) continue;
    if (key == "VmHWM:") peak = kib;
    if (key == "RssFile:") files = kib;
  }
  return peak < 0 ? -1 : std::max<std::int64_t>(0, peak - files) * 1024;
}

}  // namespace penstock::exec
