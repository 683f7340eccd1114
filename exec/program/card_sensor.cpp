#include "exec/program/card_sensor.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace penstock::exec {
namespace {

// NVML's own header comes with no toolkit that we ask for; these are its names and types (NVML API reference).
using NvmlDevice = void*;
constexpr unsigned kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;

class Library {
 public:
  explicit Library(const std::string& name) : handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
  }
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(Library&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Library& operator=(Library&&) = delete;

  /// Calls `name` with the arguments; false where it is not there or says that it failed.
  template <typename... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(handle_, name));
    return function != nullptr && function(arguments...) == 0;
  }

 private:
  void* handle_;
};

class NvmlSensor : public CardSensor {
 public:
  NvmlSensor(Library library, NvmlDevice device, int card_lanes)
      : nvml_(std::move(library)), device_(device), card_lanes_(card_lanes) {}
  ~NvmlSensor() override { nvml_.call("nvmlShutdown"); }

  CardState read() override {
    CardState now;
    now.sm_mhz = figure("nvmlDeviceGetClockInfo", kSmClock);
    now.memory_mhz = figure("nvmlDeviceGetClockInfo", kMemoryClock);
    now.celsius = figure("nvmlDeviceGetTemperature", kGpuTemperature);
    now.watts = watts("nvmlDeviceGetPowerUsage");
    now.limit_watts = watts("nvmlDeviceGetEnforcedPowerLimit");
    unsigned long long reasons = 0;  // the second name is that of drivers before 535
    if (nvml_.call("nvmlDeviceGetCurrentClocksEventReasons", device_, &reasons) ||
        nvml_.call("nvmlDeviceGetCurrentClocksThrottleReasons", device_, &reasons))
      now.held_down_by = reasons;
    now.link_generation = whole("nvmlDeviceGetCurrPcieLinkGeneration");
    now.link_lanes = whole("nvmlDeviceGetCurrPcieLinkWidth");
    now.most_generation = whole("nvmlDeviceGetMaxPcieLinkGeneration");
    now.most_lanes = whole("nvmlDeviceGetMaxPcieLinkWidth");
    now.card_lanes = card_lanes_;
    return now;
  }

 private:
  double figure(const char* name, unsigned which) const {
    unsigned value = 0;
    return nvml_.call(name, device_, which, &value) ? static_cast<double>(value) : -1;
  }
  int whole(const char* name) const {
    unsigned value = 0;
    return nvml_.call(name, device_, &value) ? static_cast<int>(value) : -1;
  }
  double watts(const char* name) const {
    const int milliwatts = whole(name);
    return milliwatts < 0 ? -1 : milliwatts / 1000.0;
  }

  Library nvml_;
  NvmlDevice device_;
  int card_lanes_;
};

/// The lanes that the card itself has: a slot of eight lanes is all that NVML knows of a card of sixteen in it.
int lanes_of_card(const std::filesystem::path& pci, std::string bus) {
  std::transform(bus.begin(), bus.end(), bus.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::ifstream file(pci / bus / "max_link_width");
  int lanes = -1;
  return file >> lanes && lanes > 0 && lanes <= 32 ? lanes : -1;
}

}  // namespace

std::unique_ptr<CardSensor> open_card_sensor(const std::string& bus, std::string& why, const std::string& library,
                                             const std::filesystem::path& pci) {
  try {
    Library nvml(library);
    if (!nvml.call("nvmlInit_v2")) throw std::runtime_error(fmt::format("{} does not start", library));
    NvmlDevice device = nullptr;
    if (!nvml.call("nvmlDeviceGetHandleByPciBusId_v2", bus.c_str(), &device)) {
      nvml.call("nvmlShutdown");
      throw std::runtime_error(fmt::format("{} knows no card at {}", library, bus));
    }
    return std::make_unique<NvmlSensor>(std::move(nvml), device, lanes_of_card(pci, bus));
  } catch (const std::runtime_error& error) {
    why = error.what();
    return nullptr;
  }
}

}  // namespace penstock::exec
