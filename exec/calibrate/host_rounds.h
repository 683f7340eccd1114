// Figures of the host's memory, taken in rounds that lie apart in time. Of a virtual machine that memory belongs to
// others too: on hosts of an H200 AdamW was seen at 5.2 to 7.2 G parameters/s, a quarter faster or slower in a run than
// in half a second of calibration minutes before. The median of the rounds counts, and how far they lie apart is kept.
#pragma once

#include <map>
#include <string>

#include "shared/machine/machine.h"

namespace penstock::exec {

class HostRounds {
 public:
  void add_adamw(int threads, double parameters_per_second);
  void add(const HostPassPoint& pass);
  void add(const DramSharing& sharing);

  /// In the order in which each was first added. `spread`, by figure: (max - min) / median of its rounds where that is
  /// more than what stands there.
  void fill(Cpu& cpu, std::map<std::string, double>& spread) const;

 private:
  template <class Figure>
  using Rounds = std::vector<std::vector<Figure>>;  // of each figure

  Rounds<ThreadRate> adamw_;
  Rounds<HostPassPoint> passes_;
  Rounds<DramSharing> sharing_;
};

/// "AdamW 15 beside h2d d2h".
std::string sharing_name(const DramSharing& sharing);

}  // namespace penstock::exec
