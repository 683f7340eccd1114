// What the driver says of a card at this moment: clocks, power, what holds the clocks down, the link to the host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace penstock::exec {

/// A figure that the driver does not tell is negative, of throttling 0.
struct CardState {
  double sm_mhz = -1, memory_mhz = -1;
  double watts = -1, limit_watts = -1;
  double celsius = -1;
  std::uint64_t held_down_by = 0;  // bits of Throttle
  int link_generation = -1, link_lanes = -1;
  // What card and slot can do together, and the card by itself.
  int most_generation = -1, most_lanes = -1, card_lanes = -1;
};

/// NVML's nvmlClocksEventReasons.
enum Throttle : std::uint64_t {
  kIdle = 0x1,
  kAskedFor = 0x2,    // application clocks
  kPowerLimit = 0x4,  // software power cap
  kHardwareSlowdown = 0x8,
  kSyncBoost = 0x10,
  kHot = 0x20,  // software thermal slowdown
  kHotHardware = 0x40,
  kPowerBrake = 0x80,  // the machine's power supply asks for it
  kDisplay = 0x100,
};

class CardSensor {
 public:
  virtual ~CardSensor() = default;
  virtual CardState read() = 0;
};

/// By NVML, which comes with the driver and is loaded now, and by the system's folder of PCI devices. `bus`: of the card,
/// as "0000:41:00.0". nullptr, with the reason in `why`, where there is no such library or it does not know the card.
/// `library` and `pci` are others in tests.
std::unique_ptr<CardSensor> open_card_sensor(const std::string& bus, std::string& why,
                                             const std::string& library = "libnvidia-ml.so.1",
                                             const std::filesystem::path& pci = "/sys/bus/pci/devices");

}  // namespace penstock::exec
