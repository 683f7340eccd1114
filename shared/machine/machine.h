// A machine as the cost model sees it. A hardware file (TOML, datasheet figures with documented efficiencies) and a
// profile (JSON, measured by `penstock-exec calibrate`) both fill this one structure; tables that only a profile
// has are empty otherwise.
//
// Units: bytes, seconds, bytes per second, FLOP per second. Nothing here is in GB or GiB.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

enum class KernelId : std::uint8_t;  // shared/model/kernels.h; profiles have their names

/// One point of a copy curve: a single transfer of `bytes` takes `seconds`, latency included.
struct CopyPoint {
  double bytes = 0;
  double seconds = 0;
};

struct LinkDirection {
  double bytes_per_second = 0;   // large transfers, alone
  double latency_seconds = 0;    // per transfer, where there is no curve
  std::vector<CopyPoint> curve;  // ascending bytes; may be empty
};

struct Link {
  LinkDirection h2d, d2h;
  // Both directions busy: what each one gets then (asymmetric where measured). 0 = independent.
  double duplex_h2d_bytes_per_second = 0;
  double duplex_d2h_bytes_per_second = 0;
  // Copies of memory that is not pinned, through a ring of buffers that are (pinned_ring.h), alone, from their beginning
  // to their end; bytes_per_second 0: not measured, and latency_seconds is none of theirs.
  LinkDirection ring_h2d{}, ring_d2h{};
};

/// Rate caps when CPU threads and copies share DRAM (docs/design.md, "Time"). Rates are of useful bytes of each class.
struct DramSharing {
  int cpu_threads = 0;  // 0 = no CPU class active
  bool h2d = false, d2h = false;
  double cpu_bytes_per_second = 0, h2d_bytes_per_second = 0, d2h_bytes_per_second = 0;
  bool through_rings = false;  // the copies
};

struct ThreadRate {
  int threads = 0;
  double per_second = 0;
};

/// A pass of the host (AdamW, a sum, the finishing of a gradient; shared/ir/host_pass_names.h) over `bytes` read and
/// written, timed as a run's ops find the machine: threads asleep, caches cold.
struct HostPassPoint {
  std::string name;
  int threads = 0;
  double bytes = 0;
  double seconds = 0;
};

struct Cpu {
  int cores = 0;
  double dram_bytes_per_second = 0;          // all cores together
  std::vector<ThreadRate> dram_by_threads;   // bytes/s by number of threads; may be empty
  std::vector<ThreadRate> adamw_by_threads;  // parameters/s of the planes layout (26 B/param of traffic)
  double adamw_bytes_per_parameter = 26;
  std::vector<DramSharing> sharing;   // measured combinations; empty = plain max-min
  std::vector<HostPassPoint> passes;  // empty: AdamW by adamw_by_threads, everything else by dram_by_threads
};

struct MatmulPoint {
  std::int64_t m = 0, n = 0, k = 0;
  bool accumulates = false;
  double seconds = 0;                   // burst
  std::optional<KernelId> kernel = {};  // none: any of the shape
  std::int64_t output_bytes = 0;        // of one element of the result; 0: any
  double sustained_seconds = 0;         // without a pause, power-limited; 0: burst x burst rate / sustained rate
  std::int64_t groups = 1;              // a product for each of so many experts (Kernel::groups)
};

struct AttentionPoint {
  std::int64_t sequences = 0, length = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double forward_seconds = 0, backward_seconds = 0;                      // burst
  double forward_sustained_seconds = 0, backward_sustained_seconds = 0;  // without a pause; 0: as in a burst
  double squared_lengths = 0;  // of the documents of packed rows, see BatchShape; 0: of whole sequences
  std::int64_t past = -1;      // of a chunk of `length` queries: keys before its own; -1: of a sequence that is not cut
  std::int64_t window = 0;     // 0: none
};

/// FLOP/s of causal attention (FLOPs of half the square) of long sequences, by head dimension.
struct AttentionRate {
  int head_dim = 0;
  double forward = 0, backward = 0, deterministic_backward = 0;
};

/// What hardware and software files know of attention. A sequence of so many tokens as the half length runs at half the
/// rate: rate x length / (length + half length), which meets what was measured on an H200 (cuDNN from 1024 to 32 768
/// tokens, PyTorch's flash kernel from 1024 to 8192) within 4 %.
struct AttentionRates {
  std::vector<AttentionRate> by_head_dim;  // ascending; empty: the matmul rate times an efficiency
  double half_length = 0, backward_half_length = 0;
};

/// Elementwise kernels, by what they move.
struct ElementwisePoint {
  std::optional<KernelId> kernel;  // none: any
  double bytes = 0;
  double seconds = 0;            // burst
  double sustained_seconds = 0;  // without a pause; 0: as in a burst
};

/// A GPU that computes for `duty` of the time has gone `share` of the way from its burst to its sustained speed, if
/// what it computes takes `slowdown` longer (of 1) when it never pauses. Work that would draw far more than the limit
/// reaches it at a lower duty.
struct PowerPoint {
  double duty = 0, share = 0;
  double slowdown = 0;
};

struct Gpu {
  std::string name;
  std::int64_t hbm_bytes = 0;
  std::optional<std::int64_t> context_bytes;  // of it: what the driver, a CUDA context and libraries keep; none: usual
  double hbm_bytes_per_second = 0;
  double matmul_flops_per_second = 0;         // sustained
  double matmul_burst_flops_per_second = 0;   // before the power limit; 0 = as sustained
  double power_settle_seconds = 0.071;        // time constant from burst to sustained; as measured on an H200
  double attention_forward_efficiency = 0.6;  // of the matmul rate, where there is no table
  double attention_backward_efficiency = 0.45;
  AttentionRates attention;             // instead of the efficiencies
  bool deterministic = true;            // which backward of `attention` runs (run.deterministic)
  double elementwise_efficiency = 0.8;  // of HBM bandwidth
  double fill_seconds = 0;              // of the GPU, per kernel without a table: filling and draining it
  double launch_seconds = 0;            // of the launch thread, per kernel
  double op_launch_seconds = 0;         // of the launch thread, per op besides its kernels: waits, events
  double op_seconds = 0;                // of the GPU, per op besides its kernels
  double watts = 0;                     // board power; 0: not known
  bool is_host = false;                 // the CPU stands in for the GPU: compute takes a core
  std::vector<MatmulPoint> matmuls;
  std::vector<AttentionPoint> attentions;
  std::vector<ElementwisePoint> elementwise;  // also the optimizer's, where the GPU does it
  // Ascending in slowdown, then in duty, each curve between (0, 0) and (1, 1); empty: share = duty.
  std::vector<PowerPoint> power;
};

/// What a drive reaches in transfers of one size, `depth` of them in flight, reading or writing alone.
struct NvmePoint {
  std::int64_t transfer_bytes = 0;
  int depth = 0;
  double read_bytes_per_second = 0, write_bytes_per_second = 0;
};

struct Nvme {
  std::int64_t bytes = 0;  // 0 = none
  // Alone, in transfers of transfer_bytes, depth of them in flight; writes for as long as one likes.
  double read_bytes_per_second = 0, write_bytes_per_second = 0;
  double latency_seconds = 0;
  // While it reads and writes at once; 0: each as alone.
  double both_read_bytes_per_second = 0, both_write_bytes_per_second = 0;
  // How a run cuts copies, and how many of those are in flight; 0: as exec/store does by default.
  std::int64_t transfer_bytes = 0;
  int depth = 0;
  std::vector<NvmePoint> points{};  // ascending in transfer_bytes, then in depth
  double endurance_bytes = 0;       // that it is rated to have written to it in its life; 0: not known
};

/// What another system's implementation costs beyond its schedule, where it is not a changed figure of the machine
/// (scenarios/software). Ours costs nothing here, and no profile has it.
struct Software {
  std::string name;                  // empty: ours
  double launch_op_seconds = 0;      // the launching thread's own work for each template op
  double pass_bytes_per_second = 0;  // most that host passes other than AdamW reach; 0 = what the machine gives
  /// What it recomputes of a layer includes the layer's output, which backward does not read.
  bool recomputes_output = false;
};

/// Where the rates of a hardware file are from: measured on the card, inferred from what was published of runs on it,
/// or the convention that we apply to a datasheet.
enum class RateClass { measured, inferred, convention };

/// Steps predicted from a file were off by (predicted - measured) / measured between `low` and `high`, in 95 % of the
/// rows that the file was not made from.
struct ErrorRange {
  double low = 0, high = 0;
};

struct Machine {
  std::string name;
  std::string source;                // file it came from
  std::filesystem::path card, host;  // the files that it is composed of (card_and_host.h); empty: of none
  bool measured = false;             // from a profile
  RateClass rates = RateClass::convention;
  std::optional<ErrorRange> error;  // of a hardware file that says so
  Gpu gpu;
  std::int64_t dram_bytes = 0;
  std::optional<std::int64_t> reserve_bytes;  // of it: what the system and the program itself keep; none: usual
  std::optional<std::int64_t> pinned_bytes;   // of it: what can be pinned for a GPU's copies; none: all
  Cpu cpu;
  Link link;
  Nvme nvme;
  double host_watts = 0;       // of everything but the card, at the wall; 0: not known
  double host_op_seconds = 0;  // fixed cost of starting one host op and signalling its end
  Software software;
};

/// What arenas may take of each tier.
struct TierCapacities {
  std::int64_t hbm = 0;
  std::int64_t dram = 0;
  std::int64_t nvme = 0;
};

/// What of HBM no arena can have: Gpu::context_bytes, or what is usual for such a card. usable_memory.cpp has the
/// figures and where they are from.
std::int64_t context_bytes(const Machine& machine);
/// What of DRAM no arena can have: Machine::reserve_bytes, or what is usual.
std::int64_t reserve_bytes(const Machine& machine);
/// Capacities less those two: what every plan, prediction and run holds its arenas against. Never negative.
TierCapacities usable_memory(const Machine& machine);

/// scenarios/hardware/*.toml. Every quantity is a string with its unit ("24 GiB", "1008 GB/s", "4 us"); a missing or
/// wrong unit is an InputError that names file, line and key. A file may be composed of a card and a host
/// (shared/machine/card_and_host.h).
Machine read_hardware(const std::filesystem::path& path);

/// scenarios/software/*.toml: changes the figures of `machine` to what that software makes of them. docs/scenario.md
/// lists the keys. Throws InputError as read_hardware does.
void apply_software(const std::filesystem::path& path, Machine& machine);

/// "penstock-profile/1", strict as schedules are. `spread` and provenance of each figure are in the file and not here.
Machine read_profile(const std::filesystem::path& path);

}  // namespace penstock
