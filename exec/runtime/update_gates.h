// Updates that wait for something outside the run: a gate for each layer, which whoever still reads the layer's states
// keeps closed. To a run a gate is one more op, behind all of the schedule's, whose counter is out of reach once the
// gate is open; so host lanes and GPU lanes wait for it as for any predecessor, and an abort releases it.
//
// Thread safety: all members may be called from any thread; `close` not during a run.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "exec/runtime/board.h"

namespace penstock::exec {

class UpdateGates {
 public:
  /// All open.
  explicit UpdateGates(int gates) : open_(static_cast<std::size_t>(gates), true) {}

  int count() const { return static_cast<int>(open_.size()); }
  void close();
  void open(int gate);
  void open_all();

  /// How long host lanes have stood at closed gates since the last close(), at one or more of them.
  double waited_seconds() const;

  /// The executor's: the board of a run whose ops from `first` on are the gates, while one of these lives.
  class Attached {
   public:
    /// `gates` may be nullptr: then all of the board's gates are open.
    Attached(UpdateGates* gates, Board& board, std::size_t first);
    ~Attached();
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;

   private:
    UpdateGates* gates_;
  };
  /// The executor's, on a thread that is going to wait for a gate, while one of these lives.
  class Waiting {
   public:
    explicit Waiting(UpdateGates* gates);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    UpdateGates* gates_;
  };

 private:
  void publish(std::size_t gate) const;

  mutable std::mutex mutex_;
  std::vector<bool> open_;
  Board* board_ = nullptr;
  std::size_t first_ = 0;
  int waiting_ = 0;
  std::int64_t since_ns_ = 0, waited_ns_ = 0;
};

}  // namespace penstock::exec
