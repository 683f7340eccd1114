#include <algorithm>

#include "sim/cost/cost_model.h"
#include "sim/cost/rates.h"

namespace penstock::sim {
namespace {

double or_unlimited(double figure) { return figure > 0 ? figure : kUnlimited; }

/// A combination of copies, directly or through rings.
struct Copies {
  bool h2d = false, d2h = false, through_rings = false;
};

/// One class's measured rates over the number of threads, for one combination of copies.
std::vector<ThreadRate> sharing_rates(const Cpu& cpu, const Copies& copies, double DramSharing::*rate) {
  std::vector<ThreadRate> rates;
  for (const DramSharing& point : cpu.sharing)
    if (point.h2d == copies.h2d && point.d2h == copies.d2h && point.through_rings == copies.through_rings &&
        point.*rate > 0)
      rates.push_back({point.cpu_threads, point.*rate});
  std::sort(rates.begin(), rates.end(), [](const ThreadRate& a, const ThreadRate& b) { return a.threads < b.threads; });
  return rates;
}

/// At `threads`, starting from `without` at 0 threads unless that was measured too. Unlimited without measurements.
double shared_rate(std::vector<ThreadRate> rates, double without, int threads) {
  if (rates.empty()) return kUnlimited;
  if (rates.front().threads > 0 && without < kUnlimited) rates.insert(rates.begin(), {0, without});
  if (threads <= rates.front().threads) return rates.front().per_second;
  for (std::size_t i = 1; i < rates.size(); ++i) {
    if (threads > rates[i].threads) continue;
    const double share =
        static_cast<double>(threads - rates[i - 1].threads) / (rates[i].threads - rates[i - 1].threads);
    return rates[i - 1].per_second + share * (rates[i].per_second - rates[i - 1].per_second);
  }
  return rates.back().per_second;
}

ResourceVector always(const Machine& machine) {
  ResourceVector capacity = unlimited_resources();
  capacity[kLinkH2d] = or_unlimited(machine.link.h2d.bytes_per_second);
  capacity[kLinkD2h] = or_unlimited(machine.link.d2h.bytes_per_second);
  // The last point of a curve may be a little faster than the headline figure.
  for (const CopyPoint& point : machine.link.h2d.curve)
    capacity[kLinkH2d] = std::max(capacity[kLinkH2d], point.bytes / point.seconds);
  for (const CopyPoint& point : machine.link.d2h.curve)
    capacity[kLinkD2h] = std::max(capacity[kLinkD2h], point.bytes / point.seconds);
  double dram = machine.cpu.dram_bytes_per_second;
  for (const ThreadRate& rate : machine.cpu.dram_by_threads) dram = std::max(dram, rate.per_second);
  for (const ThreadRate& rate : machine.cpu.adamw_by_threads)
    dram = std::max(dram, rate.per_second * machine.cpu.adamw_bytes_per_parameter);
  for (const HostPassPoint& point : machine.cpu.passes)
    dram = std::max(dram, best_host_rate(machine.cpu, point.threads));
  for (const DramSharing& point : machine.cpu.sharing)
    dram = std::max(dram, point.cpu_bytes_per_second + (point.through_rings ? kRingDramPasses : 1) *
                                                           (point.h2d_bytes_per_second + point.d2h_bytes_per_second));
  capacity[kDram] = or_unlimited(dram);
  capacity[kHbm] = or_unlimited(machine.gpu.hbm_bytes_per_second);
  capacity[kCores] = or_unlimited(machine.cpu.cores);
  capacity[kNvmeRead] = capacity[kNvmeWrite] = 1;
  return capacity;
}

/// A direction that goes through a ring gets what was measured of it beside a ring in the other direction, one that goes
/// directly what it gets beside a direct copy; the CPU what rings leave it. As if all went directly where that was not
/// measured.
void set_beside_rings(const Machine& machine, CopyWay up, CopyWay down, Capacities& capacities) {
  const Copies copies{up != CopyWay::none, down != CopyWay::none, true};
  const auto cpu = sharing_rates(machine.cpu, copies, &DramSharing::cpu_bytes_per_second);
  const auto h2d = sharing_rates(machine.cpu, copies, &DramSharing::h2d_bytes_per_second);
  const auto d2h = sharing_rates(machine.cpu, copies, &DramSharing::d2h_bytes_per_second);
  for (int threads = 0; threads <= capacities.max_threads(); ++threads) {
    ResourceVector& capacity = capacities.when(up, down, threads);
    capacity = capacities.when(copies.h2d, copies.d2h, threads);
    const auto limit = [&](double& of, const std::vector<ThreadRate>& rates, const LinkDirection& alone) {
      if (!rates.empty()) of = std::min(of, shared_rate(rates, or_unlimited(alone.bytes_per_second), threads));
    };
    if (up == CopyWay::ring) limit(capacity[kLinkH2d], h2d, machine.link.ring_h2d);
    if (down == CopyWay::ring) limit(capacity[kLinkD2h], d2h, machine.link.ring_d2h);
    if (threads > 0 && !cpu.empty()) capacity[kCpuTraffic] = shared_rate(cpu, 0, threads);
  }
}

}  // namespace

Capacities machine_capacities(const Machine& machine, int max_threads) {
  const ResourceVector base = always(machine);
  Capacities capacities(base, max_threads);
  const auto beside = [](double together, double alone) { return together > 0 ? std::min(1.0, together / alone) : 1; };
  const Nvme& drive = machine.nvme;
  capacities.nvme_read_beside_writes = beside(drive.both_read_bytes_per_second, drive.read_bytes_per_second);
  capacities.nvme_write_beside_reads = beside(drive.both_write_bytes_per_second, drive.write_bytes_per_second);
  for (const bool h2d : {false, true}) {
    for (const bool d2h : {false, true}) {
      ResourceVector together = base;
      if (h2d && d2h) {
        together[kLinkH2d] = std::min(base[kLinkH2d], or_unlimited(machine.link.duplex_h2d_bytes_per_second));
        together[kLinkD2h] = std::min(base[kLinkD2h], or_unlimited(machine.link.duplex_d2h_bytes_per_second));
      }
      const Copies copies{h2d, d2h, false};
      const auto cpu = sharing_rates(machine.cpu, copies, &DramSharing::cpu_bytes_per_second);
      const auto up = sharing_rates(machine.cpu, copies, &DramSharing::h2d_bytes_per_second);
      const auto down = sharing_rates(machine.cpu, copies, &DramSharing::d2h_bytes_per_second);
      for (int threads = 0; threads <= max_threads; ++threads) {
        ResourceVector& capacity = capacities.when(h2d, d2h, threads);
        capacity = together;
        if (threads > 0) capacity[kCpuTraffic] = shared_rate(cpu, 0, threads);
        if (h2d) capacity[kLinkH2d] = std::min(together[kLinkH2d], shared_rate(up, together[kLinkH2d], threads));
        if (d2h) capacity[kLinkD2h] = std::min(together[kLinkD2h], shared_rate(down, together[kLinkD2h], threads));
      }
    }
  }
  for (const CopyWay up : kCopyWays)
    for (const CopyWay down : kCopyWays)
      if (up == CopyWay::ring || down == CopyWay::ring) set_beside_rings(machine, up, down, capacities);
  return capacities;
}

double sustained_slowdown(const std::vector<OpCost>& costs) {
  double burst = 0, extra = 0;
  for (const OpCost& cost : costs) {
    extra += cost.sustained_extra_seconds;
    // What moves bytes only does not slow down and is no part of the mix.
    if (cost.sustained_extra_seconds != 0) burst += cost.fluid_seconds;
  }
  return burst > 0 ? std::max(0.0, extra / burst) : 0;
}

int schedule_threads(const std::vector<OpCost>& costs, const Schedule& schedule) {
  std::vector<int> most(schedule.lanes.size(), 0);
  for (const Op& op : schedule.ops)
    if (costs[op.id].traffic == TrafficClass::cpu) most[op.lane] = std::max(most[op.lane], costs[op.id].threads);
  int threads = 0;
  for (const int lane : most) threads += lane;
  return threads;
}

}  // namespace penstock::sim
