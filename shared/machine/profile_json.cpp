// "penstock-profile/1": reading and writing. Every member of Machine that has a value is there; numbers are in base
// units (bytes, seconds, per second) and are written with as many digits as reading back the same bits takes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "shared/drive_alignment.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/json_reader.h"
#include "shared/machine/drive_limits.h"
#include "shared/machine/profile.h"
#include "shared/model/kernels.h"
#include "shared/nearest_name.h"
#include "shared/pinned_ring.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "penstock-profile/1";
constexpr std::int64_t kMaxProfileBytes = 16 << 20;
constexpr std::size_t kMaxPoints = 100'000;
constexpr std::size_t kMaxPasses = 1000;                    // each is held against each
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 31;  // of attention: two of them are multiplied
constexpr double kMaxRate = 1e21;
constexpr double kMaxTime = 1e6;
constexpr std::int64_t kMaxSize = 1'000'000'000'000'000'000;
constexpr int kMaxThreads = 4096;

// --- reading ------------------------------------------------------------------------------------------------------

double rate(JsonObject& object, const char* key) { return object.number(key, 0, kMaxRate); }
double positive_rate(JsonObject& object, const char* key) { return object.number(key, 1, kMaxRate); }
double seconds(JsonObject& object, const char* key) { return object.number(key, 0, kMaxTime); }
/// 0 where the key is missing: figures that profiles have not always had.
double optional_seconds(JsonObject& object, const char* key) { return object.has(key) ? seconds(object, key) : 0; }
/// A part of a capacity; nothing where the key is missing.
std::optional<std::int64_t> optional_part(JsonObject& object, const char* key, std::int64_t capacity) {
  if (!object.has(key)) return std::nullopt;
  return object.integer(key, 0, capacity - 1);
}
/// A measured duration: the cost model divides by it.
double duration(JsonObject& object, const char* key) { return object.number(key, 1e-12, kMaxTime); }
/// What sustained times may be short of burst times: kernels of microseconds, timed apart, by up to 9 % on an H200.
constexpr double kNoiseShare = 0.5;

/// A GPU that never pauses is not faster than one that does, but for noise; 0: not measured.
double sustained(JsonObject& point, const char* key, double burst_seconds) {
  const double seconds = optional_seconds(point, key);
  if (seconds > 0 && seconds < burst_seconds * kNoiseShare)
    point.fail(key, fmt::format("{} s without a pause, but {} s in a burst, which is no slower; measure again", seconds,
                                burst_seconds));
  return seconds;
}

/// What both directions reach together is no more than each alone; 0: not measured.
double duplex_rate(JsonObject& object, const char* key, double alone) {
  const double both = rate(object, key);
  if (both > alone)
    object.fail(key, fmt::format("expected at most what the direction reaches alone, {}; found {}", alone, both));
  return both;
}

int threads(JsonObject& object, const char* key, int low) {
  return static_cast<int>(object.integer(key, low, kMaxThreads));
}

/// Reads each element of a list as an object.
template <typename Point, typename ReadPoint>
std::vector<Point> read_points(JsonObject& object, const char* key, std::size_t most, ReadPoint read_point) {
  const json& list = object.array(key);
  if (list.size() > most) object.fail(key, fmt::format("{} points, more than the {} that fit", list.size(), most));
  std::vector<Point> points;
  points.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    JsonObject element(list[i], fmt::format("{}[{}]", object.place(key), i));
    points.push_back(read_point(element));
    element.finish();
  }
  return points;
}

template <typename Point, typename ReadPoint>
std::vector<Point> read_points(JsonObject& object, const char* key, ReadPoint read_point) {
  return read_points<Point>(object, key, kMaxPoints, read_point);
}

/// Tables over sizes or threads are interpolated: they must ascend.
template <typename Point, typename Key>
void check_ascending(const JsonObject& object, const char* key, const std::vector<Point>& points, Key key_of) {
  for (std::size_t i = 1; i < points.size(); ++i)
    if (!(key_of(points[i - 1]) < key_of(points[i])))
      object.fail(key, fmt::format("must ascend, but {} follows {}", key_of(points[i]), key_of(points[i - 1])));
}

std::vector<CopyPoint> read_curve(JsonObject& object, const char* key) {
  auto curve = read_points<CopyPoint>(object, key, [](JsonObject& point) {
    return CopyPoint{point.number("bytes", 1, 1e18), duration(point, "seconds")};
  });
  check_ascending(object, key, curve, [](const CopyPoint& point) { return point.bytes; });
  return curve;
}

LinkDirection read_direction(JsonObject object) {
  LinkDirection direction;
  direction.bytes_per_second = positive_rate(object, "bytes_per_second");
  direction.latency_seconds = seconds(object, "latency_seconds");
  direction.curve = read_curve(object, "curve");
  object.finish();
  return direction;
}

Link read_link(JsonObject object) {
  Link link;
  link.h2d = read_direction(object.object("h2d"));
  link.d2h = read_direction(object.object("d2h"));
  link.duplex_h2d_bytes_per_second = duplex_rate(object, "duplex_h2d_bytes_per_second", link.h2d.bytes_per_second);
  link.duplex_d2h_bytes_per_second = duplex_rate(object, "duplex_d2h_bytes_per_second", link.d2h.bytes_per_second);
  if (object.has("ring_h2d_bytes_per_second")) {
    link.ring_h2d.bytes_per_second = positive_rate(object, "ring_h2d_bytes_per_second");
    link.ring_d2h.bytes_per_second = positive_rate(object, "ring_d2h_bytes_per_second");
    if (object.has("ring_h2d_curve")) link.ring_h2d.curve = read_curve(object, "ring_h2d_curve");
    if (object.has("ring_d2h_curve")) link.ring_d2h.curve = read_curve(object, "ring_d2h_curve");
  }
  object.finish();
  return link;
}

std::vector<ThreadRate> read_thread_rates(JsonObject& object, const char* key) {
  auto rates = read_points<ThreadRate>(object, key, [](JsonObject& point) {
    return ThreadRate{threads(point, "threads", 1), positive_rate(point, "per_second")};
  });
  check_ascending(object, key, rates, [](const ThreadRate& point) { return point.threads; });
  return rates;
}

/// A rate is there if and only if its class was active.
DramSharing read_sharing(JsonObject& point) {
  DramSharing sharing;
  sharing.cpu_threads = threads(point, "cpu_threads", 0);
  sharing.h2d = point.boolean("h2d");
  sharing.d2h = point.boolean("d2h");
  if (point.has("through_rings")) sharing.through_rings = point.boolean("through_rings");
  const auto active_rate = [&](const char* key, bool active) {
    const double found = rate(point, key);
    if ((found > 0) != active)
      point.fail(key, fmt::format("expected {}, found {}",
                                  active ? "a rate, since it was active"
                                         : "0, since nothing of "
                                           "the kind was active",
                                  found));
    return found;
  };
  sharing.cpu_bytes_per_second = active_rate("cpu_bytes_per_second", sharing.cpu_threads > 0);
  sharing.h2d_bytes_per_second = active_rate("h2d_bytes_per_second", sharing.h2d);
  sharing.d2h_bytes_per_second = active_rate("d2h_bytes_per_second", sharing.d2h);
  return sharing;
}

/// The cost of a pass is a line through two points: it must rise.
void check_passes(const JsonObject& object, const std::vector<HostPassPoint>& passes) {
  for (const HostPassPoint& small : passes)
    for (const HostPassPoint& large : passes)
      if (small.name == large.name && small.threads == large.threads && small.bytes < large.bytes &&
          small.seconds >= large.seconds)
        object.fail("passes", fmt::format("\"{}\" on {} threads takes {} s for {} bytes and {} s for {}; measure again",
                                          small.name.substr(0, 60), small.threads, small.seconds, small.bytes,
                                          large.seconds, large.bytes));
}

Cpu read_cpu(JsonObject object) {
  Cpu cpu;
  cpu.cores = threads(object, "cores", 1);
  cpu.dram_bytes_per_second = positive_rate(object, "dram_bytes_per_second");
  cpu.dram_by_threads = read_thread_rates(object, "dram_by_threads");
  cpu.adamw_by_threads = read_thread_rates(object, "adamw_by_threads");
  cpu.adamw_bytes_per_parameter = object.number("adamw_bytes_per_parameter", 1, 1000);
  cpu.sharing = read_points<DramSharing>(object, "sharing", read_sharing);
  if (object.has("passes")) {
    cpu.passes = read_points<HostPassPoint>(object, "passes", kMaxPasses, [](JsonObject& point) {
      return HostPassPoint{point.text("name"), threads(point, "threads", 1), point.number("bytes", 1, 1e18),
                           duration(point, "seconds")};
    });
    check_passes(object, cpu.passes);
  }
  object.finish();
  return cpu;
}

/// By its name; "" is any.
std::optional<KernelId> kernel(JsonObject& point) {
  const std::string name = point.text("name");
  if (name.empty()) return std::nullopt;
  if (const std::optional<KernelId> found = find_kernel(name)) return found;
  std::array<std::string_view, kKernelNames.size()> known;
  for (std::size_t i = 0; i < known.size(); ++i) known[i] = kKernelNames[i].name;
  point.fail("name", fmt::format("\"{}\" is no kernel that this version executes{}", name.substr(0, 60),
                                 meant_choice(name, known)));
}
std::string_view name_of(std::optional<KernelId> kernel) { return kernel ? kernel_name(*kernel) : std::string_view(); }

MatmulPoint read_matmul(JsonObject& point) {
  MatmulPoint matmul;
  matmul.m = point.integer("m", 1, kMaxSize);
  matmul.n = point.integer("n", 1, kMaxSize);
  matmul.k = point.integer("k", 1, kMaxSize);
  matmul.accumulates = point.boolean("accumulates");
  matmul.seconds = duration(point, "seconds");
  if (point.has("name")) matmul.kernel = kernel(point);
  if (point.has("output_bytes")) matmul.output_bytes = point.integer("output_bytes", 0, 8);
  if (point.has("groups")) matmul.groups = point.integer("groups", 1, largest_size("num_experts"));
  matmul.sustained_seconds = sustained(point, "sustained_seconds", matmul.seconds);
  return matmul;
}

AttentionPoint read_attention(JsonObject& point) {
  AttentionPoint attention;
  attention.sequences = point.integer("sequences", 1, kMaxExtent);
  attention.length = point.integer("length", 1, kMaxExtent);
  attention.heads = point.integer("heads", 1, kMaxExtent);
  attention.kv_heads = point.integer("kv_heads", 1, kMaxExtent);
  attention.head_dim = point.integer("head_dim", 1, kMaxExtent);
  attention.forward_seconds = duration(point, "forward_seconds");
  attention.backward_seconds = duration(point, "backward_seconds");
  attention.forward_sustained_seconds = sustained(point, "forward_sustained_seconds", attention.forward_seconds);
  attention.backward_sustained_seconds = sustained(point, "backward_sustained_seconds", attention.backward_seconds);
  if (point.has("past")) attention.past = point.integer("past", 0, kMaxExtent);
  if (point.has("squared_lengths")) {
    const double length = static_cast<double>(attention.length + std::max<std::int64_t>(0, attention.past));
    attention.squared_lengths = point.number("squared_lengths", 1, length * length);
  }
  if (point.has("window")) attention.window = point.integer("window", 1, kMaxExtent);
  return attention;
}

Gpu read_gpu(JsonObject object) {
  Gpu gpu;
  gpu.name = object.text("name");
  gpu.hbm_bytes = object.integer("hbm_bytes", 1, kMaxSize);
  gpu.context_bytes = optional_part(object, "context_bytes", gpu.hbm_bytes);
  gpu.hbm_bytes_per_second = positive_rate(object, "hbm_bytes_per_second");
  gpu.matmul_flops_per_second = positive_rate(object, "matmul_flops_per_second");
  gpu.matmul_burst_flops_per_second = rate(object, "matmul_burst_flops_per_second");
  if (gpu.matmul_burst_flops_per_second > 0 && gpu.matmul_burst_flops_per_second < gpu.matmul_flops_per_second)
    object.fail("matmul_burst_flops_per_second",
                fmt::format("expected 0, if it was not measured, or at least the sustained rate, "
                            "matmul_flops_per_second = {}; found {}",
                            gpu.matmul_flops_per_second, gpu.matmul_burst_flops_per_second));
  gpu.power_settle_seconds = seconds(object, "power_settle_seconds");
  gpu.attention_forward_efficiency = object.number("attention_forward_efficiency", 1e-6, 1);
  gpu.attention_backward_efficiency = object.number("attention_backward_efficiency", 1e-6, 1);
  gpu.elementwise_efficiency = object.number("elementwise_efficiency", 1e-6, 1);
  gpu.launch_seconds = seconds(object, "launch_seconds");
  gpu.op_launch_seconds = optional_seconds(object, "op_launch_seconds");
  gpu.op_seconds = optional_seconds(object, "op_seconds");
  // Profiles have had it, though nothing ever asked for it: a schedule has the copy lanes of its policy.
  if (object.has("copy_engines")) object.integer("copy_engines", 1, 64);
  gpu.is_host = object.boolean("is_host");
  gpu.matmuls = read_points<MatmulPoint>(object, "matmuls", read_matmul);
  gpu.attentions = read_points<AttentionPoint>(object, "attentions", read_attention);
  gpu.elementwise = read_points<ElementwisePoint>(object, "elementwise", [](JsonObject& point) {
    const double seconds = duration(point, "seconds");
    return ElementwisePoint{kernel(point), point.number("bytes", 1, 1e18), seconds,
                            sustained(point, "sustained_seconds", seconds)};
  });
  if (object.has("power")) {
    gpu.power = read_points<PowerPoint>(object, "power", [](JsonObject& point) {
      return PowerPoint{point.number("duty", 0, 1), point.number("share", 0, 1),
                        point.has("slowdown") ? point.number("slowdown", 0, 1e3) : 0};
    });
    check_ascending(object, "power", gpu.power, [](const PowerPoint& point) {
      return std::pair{point.slowdown, point.duty};
    });
  }
  object.finish();
  return gpu;
}

std::int64_t transfer_bytes(JsonObject& object) {
  const std::int64_t bytes = object.integer("transfer_bytes", kDriveAlignment, kMostTransferBytes);
  if (bytes % kDriveAlignment != 0)
    object.fail("transfer_bytes", fmt::format("expected a multiple of {}, found {}", kDriveAlignment, bytes));
  return bytes;
}

Nvme read_nvme(JsonObject object) {
  Nvme nvme;
  nvme.bytes = object.integer("bytes", 0, kMaxSize);
  nvme.read_bytes_per_second = object.number("read_bytes_per_second", nvme.bytes > 0 ? 1 : 0, kMaxRate);
  nvme.write_bytes_per_second = object.number("write_bytes_per_second", nvme.bytes > 0 ? 1 : 0, kMaxRate);
  nvme.latency_seconds = seconds(object, "latency_seconds");
  if (object.has("both_read_bytes_per_second")) {
    nvme.both_read_bytes_per_second = positive_rate(object, "both_read_bytes_per_second");
    nvme.both_write_bytes_per_second = positive_rate(object, "both_write_bytes_per_second");
  }
  if (object.has("transfer_bytes")) {
    nvme.transfer_bytes = transfer_bytes(object);
    nvme.depth = static_cast<int>(object.integer("depth", 1, kMostDepth));
  }
  if (object.has("points"))
    nvme.points = read_points<NvmePoint>(object, "points", [](JsonObject& point) {
      return NvmePoint{transfer_bytes(point), static_cast<int>(point.integer("depth", 1, kMostDepth)),
                       positive_rate(point, "read_bytes_per_second"), positive_rate(point, "write_bytes_per_second")};
    });
  check_ascending(object, "points", nvme.points,
                  [](const NvmePoint& point) { return std::pair(point.transfer_bytes, point.depth); });
  if (object.has("endurance_bytes")) nvme.endurance_bytes = object.number("endurance_bytes", 1, 1e21);
  object.finish();
  return nvme;
}

Machine read_machine(JsonObject object) {
  Machine machine;
  machine.name = object.text("name");
  machine.measured = true;
  machine.gpu = read_gpu(object.object("gpu"));
  machine.dram_bytes = object.integer("dram_bytes", 1, kMaxSize);
  machine.reserve_bytes = optional_part(object, "reserve_bytes", machine.dram_bytes);
  if (object.has("pinned_bytes")) machine.pinned_bytes = object.integer("pinned_bytes", kRingsBytes, kMaxSize);
  machine.cpu = read_cpu(object.object("cpu"));
  machine.link = read_link(object.object("link"));
  machine.nvme = read_nvme(object.object("nvme"));
  machine.host_op_seconds = seconds(object, "host_op_seconds");
  object.finish();
  return machine;
}

Profile from_json(const json& document, const std::string& place) {
  JsonObject object(document, place);
  if (const std::string format = object.text("format"); format != kFormat)
    object.fail("format", fmt::format("expected \"{}\", found \"{}\"", kFormat, format.substr(0, 60)));
  Profile profile;
  profile.date = object.text("date");
  profile.host = object.text("host");
  profile.machine = read_machine(object.object("machine"));
  const json& spread = object.value("spread");
  JsonObject figures(spread, object.place("spread"));
  for (const auto& [name, unused] : spread.items()) profile.spread[name] = figures.number(name.c_str(), 0, 1e6);
  object.finish();
  return profile;
}

// --- writing ------------------------------------------------------------------------------------------------------

template <typename Point, typename ToJson>
json list_of(const std::vector<Point>& points, ToJson to_json) {
  json list = json::array();
  for (const Point& point : points) list.push_back(to_json(point));
  return list;
}

json curve_json(const std::vector<CopyPoint>& curve) {
  return list_of(curve, [](const CopyPoint& point) {
    return json{{"bytes", point.bytes}, {"seconds", point.seconds}};
  });
}

json direction_json(const LinkDirection& direction) {
  return {{"bytes_per_second", direction.bytes_per_second},
          {"latency_seconds", direction.latency_seconds},
          {"curve", curve_json(direction.curve)}};
}

json thread_rates_json(const std::vector<ThreadRate>& rates) {
  return list_of(rates, [](const ThreadRate& point) {
    return json{{"threads", point.threads}, {"per_second", point.per_second}};
  });
}

json cpu_json(const Cpu& cpu) {
  return {{"cores", cpu.cores},
          {"dram_bytes_per_second", cpu.dram_bytes_per_second},
          {"dram_by_threads", thread_rates_json(cpu.dram_by_threads)},
          {"adamw_by_threads", thread_rates_json(cpu.adamw_by_threads)},
          {"adamw_bytes_per_parameter", cpu.adamw_bytes_per_parameter},
          {"sharing", list_of(cpu.sharing,
                              [](const DramSharing& sharing) {
                                json point = {{"cpu_threads", sharing.cpu_threads},
                                              {"h2d", sharing.h2d},
                                              {"d2h", sharing.d2h},
                                              {"cpu_bytes_per_second", sharing.cpu_bytes_per_second},
                                              {"h2d_bytes_per_second", sharing.h2d_bytes_per_second},
                                              {"d2h_bytes_per_second", sharing.d2h_bytes_per_second}};
                                if (sharing.through_rings) point["through_rings"] = true;
                                return point;
                              })},
          {"passes", list_of(cpu.passes, [](const HostPassPoint& point) {
             return json{
                 {"name", point.name}, {"threads", point.threads}, {"bytes", point.bytes}, {"seconds", point.seconds}};
           })}};
}

json gpu_json(const Gpu& gpu) {
  json result = {{"name", gpu.name},
                 {"hbm_bytes", gpu.hbm_bytes},
                 {"hbm_bytes_per_second", gpu.hbm_bytes_per_second},
                 {"matmul_flops_per_second", gpu.matmul_flops_per_second},
                 {"matmul_burst_flops_per_second", gpu.matmul_burst_flops_per_second},
                 {"power_settle_seconds", gpu.power_settle_seconds},
                 {"attention_forward_efficiency", gpu.attention_forward_efficiency},
                 {"attention_backward_efficiency", gpu.attention_backward_efficiency},
                 {"elementwise_efficiency", gpu.elementwise_efficiency},
                 {"launch_seconds", gpu.launch_seconds},
                 {"op_launch_seconds", gpu.op_launch_seconds},
                 {"op_seconds", gpu.op_seconds},
                 {"is_host", gpu.is_host},
                 {"matmuls", list_of(gpu.matmuls,
                                     [](const MatmulPoint& point) {
                                       json entry{{"m", point.m},
                                                  {"n", point.n},
                                                  {"k", point.k},
                                                  {"accumulates", point.accumulates},
                                                  {"name", name_of(point.kernel)},
                                                  {"output_bytes", point.output_bytes},
                                                  {"seconds", point.seconds},
                                                  {"sustained_seconds", point.sustained_seconds}};
                                       if (point.groups > 1) entry["groups"] = point.groups;  // of experts
                                       return entry;
                                     })},
                 {"attentions", list_of(gpu.attentions,
                                        [](const AttentionPoint& point) {
                                          json entry{{"sequences", point.sequences},
                                                     {"length", point.length},
                                                     {"heads", point.heads},
                                                     {"kv_heads", point.kv_heads},
                                                     {"head_dim", point.head_dim},
                                                     {"forward_seconds", point.forward_seconds},
                                                     {"backward_seconds", point.backward_seconds},
                                                     {"forward_sustained_seconds", point.forward_sustained_seconds},
                                                     {"backward_sustained_seconds", point.backward_sustained_seconds}};
                                          if (point.squared_lengths > 0)  // of packed rows
                                            entry["squared_lengths"] = point.squared_lengths;
                                          if (point.past >= 0) entry["past"] = point.past;  // of a chunk
                                          if (point.window > 0) entry["window"] = point.window;
                                          return entry;
                                        })},
                 {"elementwise", list_of(gpu.elementwise,
                                         [](const ElementwisePoint& point) {
                                           return json{{"name", name_of(point.kernel)},
                                                       {"bytes", point.bytes},
                                                       {"seconds", point.seconds},
                                                       {"sustained_seconds", point.sustained_seconds}};
                                         })},
                 {"power", list_of(gpu.power, [](const PowerPoint& point) {
                    return json{{"duty", point.duty}, {"share", point.share}, {"slowdown", point.slowdown}};
                  })}};
  if (gpu.context_bytes) result["context_bytes"] = *gpu.context_bytes;
  return result;
}

json link_json(const Link& link) {
  json result = {{"h2d", direction_json(link.h2d)},
                 {"d2h", direction_json(link.d2h)},
                 {"duplex_h2d_bytes_per_second", link.duplex_h2d_bytes_per_second},
                 {"duplex_d2h_bytes_per_second", link.duplex_d2h_bytes_per_second}};
  if (link.ring_h2d.bytes_per_second > 0) {
    result["ring_h2d_bytes_per_second"] = link.ring_h2d.bytes_per_second;
    result["ring_d2h_bytes_per_second"] = link.ring_d2h.bytes_per_second;
    if (!link.ring_h2d.curve.empty()) result["ring_h2d_curve"] = curve_json(link.ring_h2d.curve);
    if (!link.ring_d2h.curve.empty()) result["ring_d2h_curve"] = curve_json(link.ring_d2h.curve);
  }
  return result;
}

json nvme_json(const Nvme& nvme) {
  json result = {{"bytes", nvme.bytes},
                 {"read_bytes_per_second", nvme.read_bytes_per_second},
                 {"write_bytes_per_second", nvme.write_bytes_per_second},
                 {"latency_seconds", nvme.latency_seconds}};
  if (nvme.both_read_bytes_per_second > 0) {
    result["both_read_bytes_per_second"] = nvme.both_read_bytes_per_second;
    result["both_write_bytes_per_second"] = nvme.both_write_bytes_per_second;
  }
  if (nvme.transfer_bytes > 0) {
    result["transfer_bytes"] = nvme.transfer_bytes;
    result["depth"] = nvme.depth;
  }
  for (const NvmePoint& point : nvme.points)
    result["points"].push_back({{"transfer_bytes", point.transfer_bytes},
                                {"depth", point.depth},
                                {"read_bytes_per_second", point.read_bytes_per_second},
                                {"write_bytes_per_second", point.write_bytes_per_second}});
  if (nvme.endurance_bytes > 0) result["endurance_bytes"] = nvme.endurance_bytes;
  return result;
}

json machine_json(const Machine& machine) {
  json result = {{"name", machine.name},
                 {"gpu", gpu_json(machine.gpu)},
                 {"dram_bytes", machine.dram_bytes},
                 {"cpu", cpu_json(machine.cpu)},
                 {"link", link_json(machine.link)},
                 {"nvme", nvme_json(machine.nvme)},
                 {"host_op_seconds", machine.host_op_seconds}};
  if (machine.reserve_bytes) result["reserve_bytes"] = *machine.reserve_bytes;
  if (machine.pinned_bytes) result["pinned_bytes"] = *machine.pinned_bytes;
  return result;
}

}  // namespace

Profile read_profile_file(const std::filesystem::path& path) {
  Profile profile = from_json(read_json_file(path, kMaxProfileBytes), path.string());
  profile.machine.source = path.string();
  return profile;
}

Machine read_profile(const std::filesystem::path& path) { return read_profile_file(path).machine; }

void write_profile_file(const Profile& profile, const std::filesystem::path& path) {
  json spread = json::object();
  for (const auto& [name, value] : profile.spread) spread[name] = value;
  const json document = {{"format", kFormat},
                         {"date", profile.date},
                         {"host", profile.host},
                         {"machine", machine_json(profile.machine)},
                         {"spread", spread}};
  const std::string text = document.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  // A figure that could not be read back (zero, not finite) is a failed calibration: say so now.
  try {
    from_json(parse_json(text, path.string()), path.string());
  } catch (const InputError& error) {
    throw std::runtime_error(fmt::format("the profile is not written: {}", error.what()));
  }
  write_text_file(path, text);
}

}  // namespace penstock
