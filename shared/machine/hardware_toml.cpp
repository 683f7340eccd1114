// Reads scenarios/hardware/*.toml; docs/scenario.md lists the keys.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "shared/drive_alignment.h"
#include "shared/error.h"
#include "shared/machine/attention_toml.h"
#include "shared/machine/card_and_host.h"
#include "shared/machine/drive_limits.h"
#include "shared/machine/machine.h"
#include "shared/pinned_ring.h"
#include "shared/toml_reader.h"
#include "shared/units.h"

namespace penstock {
namespace {

constexpr int kMaxCores = 4096;

/// A part of `capacity` that no arena can have.
std::int64_t kept_bytes(TomlSection& section, const char* key, const char* capacity_key, std::int64_t capacity) {
  const std::int64_t kept = section.bytes(key, 0);
  if (kept >= capacity)
    section.fail(key, fmt::format("expected less than {} = {}; found {}", capacity_key,
                                  shown(section.value(capacity_key)), shown(section.value(key))));
  return kept;
}

void read_gpu(const TomlDocument& document, Gpu& gpu) {
  TomlSection section(document, "gpu");
  gpu.name = section.text("name");
  gpu.hbm_bytes = section.bytes("hbm", 1 << 20);
  if (section.has("context")) gpu.context_bytes = kept_bytes(section, "context", "hbm", gpu.hbm_bytes);
  gpu.hbm_bytes_per_second = section.bandwidth("hbm_bandwidth");
  gpu.matmul_flops_per_second = section.flops("matmul");
  if (section.has("matmul_burst")) {
    gpu.matmul_burst_flops_per_second = section.flops("matmul_burst");
    if (gpu.matmul_burst_flops_per_second < gpu.matmul_flops_per_second)
      section.fail("matmul_burst", fmt::format("expected at least the sustained rate, matmul = {}; found {}",
                                               shown(section.value("matmul")), shown(section.value("matmul_burst"))));
  }
  if (section.has("power_settle")) gpu.power_settle_seconds = section.seconds("power_settle");
  const auto efficiency = [&](const char* key, double& value) {
    if (section.has(key)) value = section.number(key, 0.01, 1.0);
  };
  efficiency("attention_forward_efficiency", gpu.attention_forward_efficiency);
  efficiency("attention_backward_efficiency", gpu.attention_backward_efficiency);
  efficiency("elementwise_efficiency", gpu.elementwise_efficiency);
  if (section.has("fill")) gpu.fill_seconds = section.seconds("fill");
  gpu.launch_seconds = section.seconds("launch");
  if (section.has("copy_engines"))
    section.fail("copy_engines", "decides nothing: a schedule has the copy lanes of its policy; leave it out");
  if (section.has("is_host")) gpu.is_host = section.boolean("is_host");
  section.finish();
  gpu.attention = read_attention_rates(document, "attention");
}

/// [accuracy]: how far predictions from this file were off.
void read_accuracy(const TomlDocument& document, Machine& machine) {
  TomlSection section(document, "accuracy");
  if (!section.exists()) return;
  static constexpr std::string_view kClasses[] = {"measured", "inferred", "convention"};
  machine.rates = static_cast<RateClass>(section.choice("rates", kClasses));
  if (section.has("error_low") || section.has("error_high"))
    machine.error = ErrorRange{section.number("error_low", -0.99, 0), section.number("error_high", 0, 10)};
  section.finish();
}

void read_dram(const TomlDocument& document, Machine& machine) {
  TomlSection section(document, "dram");
  machine.dram_bytes = section.bytes("capacity", 1 << 20);
  if (section.has("most")) section.bytes("most", 1 << 20);  // of hosts: read_host_figures
  if (section.has("reserve")) machine.reserve_bytes = kept_bytes(section, "reserve", "capacity", machine.dram_bytes);
  if (section.has("pinned")) machine.pinned_bytes = section.bytes("pinned", kRingsBytes);
  if (section.has("channels")) {
    machine.cpu.dram_bytes_per_second =
        static_cast<double>(section.integer("channels", 1, 1024)) * section.bandwidth("channel_bandwidth");
    if (section.has("bandwidth")) section.fail("bandwidth", "stands beside channels; keep one of the two");
  } else {
    machine.cpu.dram_bytes_per_second = section.bandwidth("bandwidth");
  }
  section.finish();
}

void read_power(const TomlDocument& document, Machine& machine) {
  TomlSection section(document, "power");
  if (section.has("card")) machine.gpu.watts = section.watts("card");
  if (section.has("host")) machine.host_watts = section.watts("host");
  section.finish();
}

int thread_count(TomlSection& section, const std::string& key) {
  int threads = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), threads);
  if (error != std::errc{} || end != key.data() + key.size() || threads < 1 || threads > kMaxCores)
    section.fail(key, fmt::format("the key is a number of threads, from 1 to {}", kMaxCores));
  return threads;
}

/// Keys are numbers of threads: 8 = "63.5 GB/s".
template <typename ReadRate>
std::vector<ThreadRate> read_thread_rates(const TomlDocument& document, const std::string& table, ReadRate read_rate) {
  TomlSection section(document, table);
  std::vector<ThreadRate> rates;
  for (const std::string& key : section.keys()) {
    const int threads = thread_count(section, key);
    const double rate = read_rate(section, key);
    if (std::any_of(rates.begin(), rates.end(), [&](const ThreadRate& other) { return other.threads == threads; }))
      section.fail(key, "stands there twice");
    rates.push_back({threads, rate});
  }
  std::sort(rates.begin(), rates.end(), [](const ThreadRate& a, const ThreadRate& b) { return a.threads < b.threads; });
  return rates;
}

void read_cpu(const TomlDocument& document, Machine& machine) {
  Cpu& cpu = machine.cpu;
  TomlSection section(document, "cpu");
  cpu.cores = static_cast<int>(section.integer("cores", 1, kMaxCores));
  if (section.has("adamw_bytes_per_parameter"))
    cpu.adamw_bytes_per_parameter = section.number("adamw_bytes_per_parameter", 1, 1000);
  machine.host_op_seconds = section.seconds("host_op");
  const bool one_rate = section.has("adamw");
  if (one_rate) cpu.adamw_by_threads.push_back({cpu.cores, section.rate("adamw")});
  section.finish();
  const auto bandwidth = [](TomlSection& table, const std::string& key) { return table.bandwidth(key); };
  const auto rate = [](TomlSection& table, const std::string& key) { return table.rate(key); };
  cpu.dram_by_threads = read_thread_rates(document, "cpu.dram_by_threads", bandwidth);
  if (auto rates = read_thread_rates(document, "cpu.adamw_by_threads", rate); !rates.empty()) {
    if (one_rate) section.fail("adamw", "stands beside [cpu.adamw_by_threads]; keep one of the two");
    cpu.adamw_by_threads = std::move(rates);
  }
}

/// Keys are sizes of one transfer, values the rate it reached: "64 KiB" = "17.0 GB/s".
std::vector<CopyPoint> read_curve(const TomlDocument& document, const std::string& table) {
  TomlSection section(document, table);
  std::vector<CopyPoint> curve;
  for (const std::string& key : section.keys()) {
    const auto bytes = static_cast<double>(parse_bytes(key, section.place(key)));
    if (bytes < 1) section.fail(key, "the key is the size of a transfer, more than zero");
    curve.push_back({bytes, bytes / section.bandwidth(key)});
  }
  std::sort(curve.begin(), curve.end(), [](const CopyPoint& a, const CopyPoint& b) { return a.bytes < b.bytes; });
  for (std::size_t i = 1; i < curve.size(); ++i)
    if (curve[i].bytes == curve[i - 1].bytes)
      throw InputError(fmt::format("{}: [{}] has {} twice", document.place, table, format_bytes(curve[i].bytes)));
  return curve;
}

void read_link(const TomlDocument& document, Link& link) {
  TomlSection section(document, "link");
  link.h2d.bytes_per_second = section.bandwidth("h2d");
  link.d2h.bytes_per_second = section.bandwidth("d2h");
  link.h2d.latency_seconds = link.d2h.latency_seconds = section.seconds("latency");
  const auto duplex = [&](const char* key, double alone) {
    if (!section.has(key)) return 0.0;
    const double rate = section.bandwidth(key);
    if (rate > alone)
      section.fail(key, fmt::format("expected at most what the direction reaches alone, {}; found {}",
                                    format_bandwidth(alone), shown(section.value(key))));
    return rate;
  };
  link.duplex_h2d_bytes_per_second = duplex("duplex_h2d", link.h2d.bytes_per_second);
  link.duplex_d2h_bytes_per_second = duplex("duplex_d2h", link.d2h.bytes_per_second);
  section.finish();
  link.h2d.curve = read_curve(document, "link.h2d_curve");
  link.d2h.curve = read_curve(document, "link.d2h_curve");
}

/// Tables [sharing.<any name>], one per combination that was measured.
void read_sharing(const TomlDocument& document, Cpu& cpu) {
  for (const auto& [name, table] : document.tables) {
    if (!name.starts_with("sharing.")) continue;
    TomlSection section(document, name);
    DramSharing sharing;
    sharing.cpu_threads = static_cast<int>(section.integer("threads", 0, kMaxCores));
    const auto rate = [&](const char* key) { return section.has(key) ? section.bandwidth(key) : 0.0; };
    sharing.h2d_bytes_per_second = rate("h2d");
    sharing.d2h_bytes_per_second = rate("d2h");
    sharing.cpu_bytes_per_second = rate("cpu");
    sharing.h2d = sharing.h2d_bytes_per_second > 0;
    sharing.d2h = sharing.d2h_bytes_per_second > 0;
    if ((sharing.cpu_threads > 0) != (sharing.cpu_bytes_per_second > 0))
      section.fail("cpu",
                   fmt::format("a rate belongs here if and only if threads work; threads = {}", sharing.cpu_threads));
    section.finish();
    cpu.sharing.push_back(sharing);
  }
}

void read_nvme(const TomlDocument& document, Nvme& nvme) {
  TomlSection section(document, "nvme");
  if (!section.exists()) return;
  nvme.bytes = section.bytes("capacity", 1 << 20);
  nvme.read_bytes_per_second = section.bandwidth("read");
  nvme.write_bytes_per_second = section.bandwidth("write");
  nvme.latency_seconds = section.seconds("latency");
  if (section.has("both_read") || section.has("both_write")) {
    nvme.both_read_bytes_per_second = section.bandwidth("both_read");
    nvme.both_write_bytes_per_second = section.bandwidth("both_write");
  }
  if (section.has("transfer")) {
    nvme.transfer_bytes = section.bytes("transfer", kDriveAlignment);
    if (nvme.transfer_bytes % kDriveAlignment != 0 || nvme.transfer_bytes > kMostTransferBytes)
      section.fail("transfer", fmt::format("expected a multiple of {} bytes, {} MiB at most", kDriveAlignment,
                                           kMostTransferBytes >> 20));
  }
  if (section.has("depth")) nvme.depth = static_cast<int>(section.integer("depth", 1, kMostDepth));
  if (section.has("endurance")) nvme.endurance_bytes = static_cast<double>(section.bytes("endurance", 1));
  section.finish();
}

}  // namespace

HostFigures read_host_figures(const std::filesystem::path& path) {
  const TomlDocument document = read_toml(path);
  Machine machine;
  read_dram(document, machine);
  read_cpu(document, machine);
  TomlSection dram(document, "dram");
  const std::int64_t most = dram.has("most") ? dram.bytes("most", 1 << 20) : 0;
  return {TomlSection(document, "").text("name"), machine.dram_bytes, most, machine.cpu.dram_bytes_per_second,
          machine.cpu.cores};
}

Machine read_hardware(const std::filesystem::path& path) {
  TomlDocument document = read_toml(path);
  Machine parts;
  compose(document, path.parent_path(), parts);
  Machine machine = machine_of(document);
  machine.source = path.string();
  machine.card = parts.card;
  machine.host = parts.host;
  return machine;
}

Machine machine_of(const TomlDocument& document) {
  check_tables(document, {"accuracy", "gpu", "attention", "power", "dram", "cpu", "cpu.adamw_by_threads",
                          "cpu.dram_by_threads", "link", "link.h2d_curve", "link.d2h_curve", "sharing.", "nvme"});
  Machine machine;
  TomlSection top(document, "");
  top.has("card");
  top.has("host");
  machine.name = top.text("name");
  top.finish();
  machine.source = document.place;
  read_accuracy(document, machine);
  read_gpu(document, machine.gpu);
  read_power(document, machine);
  read_dram(document, machine);
  read_cpu(document, machine);
  read_link(document, machine.link);
  read_sharing(document, machine.cpu);
  read_nvme(document, machine.nvme);
  return machine;
}

}  // namespace penstock
