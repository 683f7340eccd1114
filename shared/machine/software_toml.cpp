// Reads scenarios/software/*.toml; docs/scenario.md lists the keys.
#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "shared/machine/attention_toml.h"
#include "shared/machine/machine.h"
#include "shared/machine/software_memory.h"
#include "shared/model/kernels.h"
#include "shared/toml_reader.h"

namespace penstock {
namespace {

/// Kernels that are not fused move their data so many times: their tables and rates are of one pass. The optimizer is not
/// one of a layer's: it gets points of its own, by which it goes as the machine has it.
void widen_elementwise(Gpu& gpu, double layers, double optimizer) {
  const auto is = [](std::optional<KernelId> kernel) {
    return [kernel](const ElementwisePoint& point) { return point.kernel == kernel; };
  };
  if (std::none_of(gpu.elementwise.begin(), gpu.elementwise.end(), is(KernelId::adamw))) {
    std::vector<ElementwisePoint> points;
    std::copy_if(gpu.elementwise.begin(), gpu.elementwise.end(), std::back_inserter(points), is(std::nullopt));
    if (points.empty() && gpu.hbm_bytes_per_second > 0)
      points = {{std::nullopt, 1, 1 / (gpu.hbm_bytes_per_second * gpu.elementwise_efficiency)}};
    for (ElementwisePoint& point : points) point.kernel = KernelId::adamw;
    gpu.elementwise.insert(gpu.elementwise.end(), points.begin(), points.end());
  }
  gpu.elementwise_efficiency /= layers;
  for (ElementwisePoint& point : gpu.elementwise) {
    const double times = point.kernel == KernelId::adamw ? optimizer : layers;
    point.seconds *= times;
    point.sustained_seconds *= times;
  }
}

void apply_gpu(const TomlDocument& document, Machine& machine) {
  TomlSection section(document, "gpu");
  Gpu& gpu = machine.gpu;
  if (section.has("launch")) gpu.launch_seconds = section.seconds("launch");
  if (section.has("launch_op")) machine.software.launch_op_seconds = section.seconds("launch_op");
  if (section.has("recomputes_output")) machine.software.recomputes_output = section.boolean("recomputes_output");
  if (section.has("elementwise_traffic") || section.has("optimizer_traffic"))
    widen_elementwise(gpu, section.has("elementwise_traffic") ? section.number("elementwise_traffic", 1, 100) : 1,
                      section.has("optimizer_traffic") ? section.number("optimizer_traffic", 1, 100) : 1);
  if (section.has("attention_forward_efficiency"))
    gpu.attention_forward_efficiency = section.number("attention_forward_efficiency", 0.01, 1);
  if (section.has("attention_backward_efficiency"))
    gpu.attention_backward_efficiency = section.number("attention_backward_efficiency", 0.01, 1);
  section.finish();
  // Its own kernels: on this card, else on any; no figure: the card's.
  for (const std::string& table : {"attention." + gpu.name, std::string("attention")})
    if (AttentionRates rates = read_attention_rates(document, table); !rates.by_head_dim.empty()) {
      gpu.attention = std::move(rates);
      break;
    }
}

void cap_adamw(double most, Cpu& cpu) {
  if (cpu.adamw_by_threads.empty())
    cpu.adamw_by_threads.push_back({cpu.cores, cpu.dram_bytes_per_second / cpu.adamw_bytes_per_parameter});
  for (ThreadRate& rate : cpu.adamw_by_threads) rate.per_second = std::min(rate.per_second, most);
}

/// What the program reaches on a host: that of the host's own table, key by key, else that of any.
void apply_cpu(const TomlDocument& document, Machine& machine) {
  const std::string own = "cpu." + machine.host.stem().string();
  double adamw_traffic = 0;  // a cap in bytes of DRAM traffic per second, so that the machine's table keeps its meaning
  const auto read = [&](const std::string& table, bool counts) {  // the others are read for their mistakes
    TomlSection section(document, table);
    const double passes = section.has("passes") ? section.bandwidth("passes") : 0;
    const double adamw =
        section.has("adamw") ? section.number("adamw_bytes_per_parameter", 1, 1000) * section.rate("adamw") : 0;
    section.finish();
    if (counts && passes > 0) machine.software.pass_bytes_per_second = passes;
    if (counts && adamw > 0) adamw_traffic = adamw;
  };
  read("cpu", true);
  for (const auto& [name, table] : document.tables)
    if (name.starts_with("cpu.")) read(name, name == own);
  if (adamw_traffic > 0) cap_adamw(adamw_traffic / machine.cpu.adamw_bytes_per_parameter, machine.cpu);
}

/// Uploads move so many times the bytes of the bf16 weights.
void widen_uploads(double times, LinkDirection& h2d, double& duplex) {
  h2d.bytes_per_second /= times;
  duplex /= times;
  for (CopyPoint& point : h2d.curve) point.seconds *= times;
}

/// An upload is packed on the CPU first, piece by piece, and then crosses the link.
void pack_uploads(double packing, LinkDirection& h2d, double& duplex) {
  const auto behind_packing = [packing](double rate) { return rate > 0 ? 1 / (1 / rate + 1 / packing) : 0; };
  h2d.bytes_per_second = behind_packing(h2d.bytes_per_second);
  duplex = behind_packing(duplex);
  for (CopyPoint& point : h2d.curve) point.seconds += point.bytes / packing;
}

}  // namespace

void apply_software(const std::filesystem::path& path, Machine& machine) {
  const TomlDocument document = read_toml(path);
  check_tables(document, {"gpu", "attention", "attention.", "cpu", "cpu.", "link", "settings", "memory."});
  TomlSection top(document, "");
  machine.software.name = top.text("name");
  if (top.has("memory_of")) top.text("memory_of");
  top.finish();
  read_software_memory(path);  // its errors belong to whoever names the file
  apply_gpu(document, machine);
  apply_cpu(document, machine);
  TomlSection link(document, "link");
  if (link.has("upload_traffic"))
    widen_uploads(link.number("upload_traffic", 1, 8), machine.link.h2d, machine.link.duplex_h2d_bytes_per_second);
  if (link.has("packing"))
    pack_uploads(link.bandwidth("packing"), machine.link.h2d, machine.link.duplex_h2d_bytes_per_second);
  link.finish();
}

}  // namespace penstock
